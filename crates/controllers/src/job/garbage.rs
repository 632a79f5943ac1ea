//! What this controller makes of objects that nobody has validated: see `crate::garbage`.

use api::batch::job::Job;
use api::core::pod::Pod;

use super::backoff::Record;
use super::indexes::Indexes;
use super::plan::{Observed, plan};
use crate::garbage::{Draw, now};
use crate::workload::Workload as _;

pub(crate) fn plan_any(draw: &mut Draw<'_>) -> usize {
    let job = draw.object::<Job>();
    let Ok(selector) = job.pod_selector() else { return 0 };
    let candidates = draw.views::<Pod, _>();
    let mut observed =
        Observed { job, selector, candidates, record: Record::default(), now: now() };
    // What failed is remembered.
    observed.record = plan(&observed).record;
    let plan = plan(&observed);
    let pods = [&plan.adopt, &plan.release, &plan.let_go, &plan.stop, &plan.untrack];
    pods.map(Vec::len).iter().sum::<usize>() + plan.create.len() + plan.notes.len()
}

/// The first byte says how many indexes there may be.
pub(crate) fn read_any_indexes(bytes: &[u8]) {
    let Some((size, rest)) = bytes.split_first() else { return };
    let completions = [0, 1, 7, 100, 1_000_000_000, i32::MAX][usize::from(*size) % 6];
    let text = String::from_utf8_lossy(rest);
    let indexes = Indexes::parse(&text, completions);
    assert!((0..=i64::from(completions)).contains(&indexes.len()), "{indexes} of {completions}");
    let again = Indexes::parse(&indexes.to_string(), completions);
    assert_eq!(again, indexes, "what is rendered is what was read");
    assert_eq!(indexes.overlap(&again), indexes.len());
    for missing in indexes.first_missing(10, completions) {
        assert!((0..completions).contains(&missing) && !indexes.has(missing), "{missing}");
    }
}
