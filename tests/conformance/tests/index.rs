//! Every requirement in scope has a case, and every case shows a requirement.

use std::collections::BTreeSet;

use conformance::{all, requirements};

#[test]
fn every_requirement_in_scope_has_exactly_one_case() {
    let cases: Vec<&str> = all("").iter().map(|it| it.codename).collect();
    let shown: BTreeSet<&str> = cases.iter().copied().collect();
    assert_eq!(shown.len(), cases.len(), "a requirement has two cases");
    let demanded: BTreeSet<&str> = requirements()
        .iter()
        .filter(|it| it.out_of_scope.is_none())
        .map(|it| it.codename)
        .collect();
    assert_eq!(demanded.difference(&shown).collect::<Vec<_>>(), Vec::<&&str>::new(), "no case");
    assert_eq!(shown.difference(&demanded).collect::<Vec<_>>(), Vec::<&&str>::new(), "no such");
}

#[test]
fn requirements_are_of_tiers_by_what_they_need() {
    let tier = |name: &str| requirements().iter().filter(|it| it.tier == name).count();
    assert_eq!((tier("T0"), tier("T1"), tier("T2"), tier("T3")), (113, 38, 56, 46));
}
