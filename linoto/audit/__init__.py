"""Audit a log, one file for each question: what does it show, what may be assumed, is it to be trusted?"""
