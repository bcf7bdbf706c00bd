// One colour per policy, the same as in every figure that linoto draws.

const POLICIES = {
  LinOtO: "#d1495b",
  LinUCB: "#00798c",
  LinLCB: "#edae49",
  Random: "#8d96a3",
  LinTS: "#6a4c93",
  Greedy: "#30638e",
  Gated: "#2e7d32",
};

/** The colour of a policy, or that of text for one without. */
export function colourOf(policy) {
  return POLICIES[policy] ?? "currentColor";
}
