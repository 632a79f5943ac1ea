//! One expression, three answers.

use std::collections::BTreeMap;

use cel::garbage::typed::Case;

use crate::deviations::{self, Oracle};
use crate::oracles::{Answer, CelCore, KubeCel, Ours};

/// An expression that somebody sees otherwise, and nothing explains.
#[derive(Debug, Clone)]
pub struct Difference {
    pub seed: u64,
    pub oracle: Oracle,
    pub case: Case,
    pub ours: Answer,
    pub theirs: Answer,
}

/// What came out of a run.
#[derive(Debug, Default)]
pub struct Tally {
    pub n_compared: BTreeMap<Oracle, u64>,
    /// Of those that were compared.
    pub n_values: BTreeMap<Oracle, u64>,
    /// Ill-typed expressions that both refused.
    pub n_refused: u64,
    pub n_explained: BTreeMap<(Oracle, &'static str), u64>,
    pub differences: Vec<Difference>,
}

/// So many differences are kept.
const DIFFERENCES_MAX: usize = 200;

/// Compares the expressions of these seeds: each oracle is asked about its own.
pub fn compare(seeds: impl Iterator<Item = u64> + Clone) -> Tally {
    let mut tally = Tally::default();
    for oracle in [Oracle::CelCore, Oracle::KubeCel] {
        let generator = crate::generator(oracle);
        let (ours, core, kube) =
            (Ours::new(&generator), CelCore::new(&generator), KubeCel::new(&generator));
        for seed in seeds.clone() {
            let case = generator.case(seed);
            let answer = ours.answer(&case);
            if !case.is_wrong && matches!(answer, Answer::Refused(_)) {
                panic!("seed {seed}: ours refuses {}: {answer:?}", case.text);
            }
            // It checks no types: what is wrong is not for it.
            if oracle == Oracle::KubeCel && case.is_wrong {
                continue;
            }
            let theirs = match oracle {
                Oracle::CelCore => core.answer(&case),
                Oracle::KubeCel => kube.answer(&case),
            };
            tally.judge(Difference { seed, oracle, case: case.clone(), ours: answer.clone(), theirs });
        }
    }
    tally
}

impl Tally {
    fn judge(&mut self, found: Difference) {
        *self.n_compared.entry(found.oracle).or_default() += 1;
        let is_same = match (&found.ours, &found.theirs) {
            (Answer::Value(a), Answer::Value(b)) => {
                *self.n_values.entry(found.oracle).or_default() += 1;
                a == b
            }
            (Answer::Failed(_), Answer::Failed(_)) => true,
            // Ours may be the stricter: elements of literals are of one type.
            (Answer::Refused(_), _) => {
                self.n_refused += 1;
                true
            }
            _ => false,
        };
        if is_same {
            return;
        }
        match deviations::explain(&found) {
            Some(why) => *self.n_explained.entry((found.oracle, why)).or_default() += 1,
            None if self.differences.iter().filter(|it| it.oracle == found.oracle).count() < DIFFERENCES_MAX => self.differences.push(found),
            None => {}
        }
    }
}
