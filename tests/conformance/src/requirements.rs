//! The requirements by upstream's names, from `requirements.tsv`: what must have a case, and why some
//! have none.

/// One line of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requirement {
    /// Upstream's name of it.
    pub codename: &'static str,
    /// T0: needs an API server alone. T1: and controllers. T2: and nodes that
    /// run pods, or say that they do. T3: and programs in these pods.
    pub tier: &'static str,
    /// Why there is no case for it, if there is none.
    pub out_of_scope: Option<&'static str>,
}

/// All of them, as upstream orders them.
#[must_use]
pub fn requirements() -> Vec<Requirement> {
    include_str!("../requirements.tsv").lines().skip(1).map(parse).collect()
}

fn parse(line: &'static str) -> Requirement {
    let mut columns = line.split('\t');
    let mut next = || columns.next().expect("a requirement has three columns");
    let (codename, tier, reason) = (next(), next(), next());
    Requirement { codename, tier, out_of_scope: (reason != "-").then_some(reason) }
}
