//! Ours and the oracles, on a few thousand expressions; and that what is said of the oracles holds.

use cel::garbage::typed::Case;
use cel_oracles::deviations::{DEVIATIONS, MISSING, Oracle};
use cel_oracles::oracles::{Answer, CelCore, KubeCel, Ours};
use cel_oracles::{compare, generator};

#[test]
fn the_same_value_or_an_explanation() {
    let tally = compare(1_000_000..1_004_000);
    assert!(tally.differences.is_empty(), "{:#?}", &tally.differences[..1]);
    for (oracle, n) in &tally.n_values {
        assert!(*n > 1_500, "{oracle:?} had a value for {n} only");
    }
    assert!(tally.n_refused > 100, "ill-typed expressions are refused: {}", tally.n_refused);
}

/// Ours says what cel-go says, and the oracle does not; witnesses that end with `|| true` are about
/// errors, which ours has.
#[test]
fn every_deviation_is_still_one() {
    let missing = MISSING.iter().map(|it| (it.oracle, it.name, it.witness));
    let deviations = DEVIATIONS.iter().map(|it| (it.oracle, it.name, it.witness));
    for (oracle, name, witness) in missing.chain(deviations) {
        let generator = generator(oracle);
        let text = witness.strip_suffix(" || true").unwrap_or(witness);
        let case = |text: &str| Case { text: text.to_owned(), ..generator.case(1) };
        let ours = Ours::new(&generator);
        assert_eq!(ours.answer(&case(witness)), Answer::Value("true".to_owned()), "{name}");
        let theirs = match oracle {
            Oracle::CelCore => CelCore::new(&generator).answer(&case(text)),
            Oracle::KubeCel => KubeCel::new(&generator).answer(&case(text)),
        };
        let ours = ours.answer(&case(text));
        let is_same = ours == theirs || matches!((&ours, &theirs), (Answer::Failed(_), Answer::Failed(_)));
        assert!(!is_same, "{oracle:?}: {name}: {text} is {theirs:?} now");
    }
}
