//! A part of a whole, as users write it: a number or a percentage. Pure.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

#[derive(Clone, Copy)]
pub(crate) enum Round {
    Up,
    Down,
}

/// Never negative; what is no percentage is none.
pub(crate) fn resolve(value: &IntOrString, total: i32, round: Round) -> i32 {
    match value {
        IntOrString::Int(number) => (*number).max(0),
        IntOrString::String(text) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(0);
            let exact = percent.max(0).saturating_mul(i64::from(total.max(0)));
            let rounded = match round {
                Round::Up => exact.saturating_add(99) / 100,
                Round::Down => exact / 100,
            };
            i32::try_from(rounded).unwrap_or(i32::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

    use super::{Round, resolve};

    #[test]
    fn percentages_are_rounded_as_asked_and_numbers_taken_as_they_are() {
        let percent = |text: &str| IntOrString::String(text.to_owned());
        assert_eq!(resolve(&percent("25%"), 3, Round::Up), 1);
        assert_eq!(resolve(&percent("25%"), 3, Round::Down), 0);
        assert_eq!(resolve(&percent("100%"), 7, Round::Down), 7);
        assert_eq!(resolve(&percent("-5%"), 7, Round::Up), 0);
        assert_eq!(resolve(&percent("many"), 7, Round::Up), 0);
        assert_eq!(resolve(&percent("9223372036854775807%"), i32::MAX, Round::Up), i32::MAX);
        assert_eq!(resolve(&IntOrString::Int(-3), 7, Round::Up), 0);
        assert_eq!(resolve(&IntOrString::Int(9), 7, Round::Up), 9);
    }
}
