//! Why a pod fits nowhere, counted per reason, in the words that users know.

use std::collections::BTreeMap;
use std::fmt;

/// How many nodes each reason ruled out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Diagnosis {
    /// That were looked at.
    pub(crate) n_nodes: usize,
    reasons: BTreeMap<String, usize>,
}

impl Diagnosis {
    /// One node may be ruled out for several reasons; each counts it once.
    pub(crate) fn add(&mut self, reason: &str) {
        match self.reasons.get_mut(reason) {
            Some(count) => *count += 1,
            None => {
                self.reasons.insert(reason.to_owned(), 1);
            }
        }
    }
}

/// `0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were unschedulable.`
impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.n_nodes == 0 {
            return f.write_str("no nodes available to schedule pods");
        }
        let mut texts: Vec<String> =
            self.reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        texts.sort();
        write!(f, "0/{} nodes are available: {}.", self.n_nodes, texts.join(", "))
    }
}
