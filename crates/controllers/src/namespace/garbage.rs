//! What this controller makes of objects that nobody has validated: see `crate::garbage`.

use api::core::namespace::Namespace;

use super::plan::{self, Found, plan};
use crate::garbage::{Draw, now};

pub(crate) fn plan_any(draw: &mut Draw<'_>) -> usize {
    let namespace = draw.object::<Namespace>();
    let count = |draw: &mut Draw<'_>| (draw.name().to_owned(), draw.below(100));
    let found = Found {
        discovery_failure: draw.flag().then(|| draw.name().to_owned()),
        content_failures: (0..draw.below(3)).map(|_| draw.name().to_owned()).collect(),
        remaining: (0..draw.below(3)).map(|_| count(draw)).collect(),
        finalizers: (0..draw.below(3)).map(|_| count(draw)).collect(),
    };
    found.verdict();
    plan::is_ending(&namespace);
    let stored = namespace.status.as_ref().and_then(|it| it.conditions.clone());
    let holders = plan::other_holders(&namespace);
    usize::from(plan(&stored.unwrap_or_default(), &found, &holders, now()).is_some())
}
