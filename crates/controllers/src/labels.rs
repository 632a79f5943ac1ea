//! Labels as values of indexes, so that who selects whom is found without trying every selector on
//! every object.

use apimachinery::selector::{Labels, Requirement};

/// The form of a label in an index.
pub(crate) fn index_value(namespace: &str, key: &str, value: &str) -> String {
    format!("{namespace}/{key}={value}")
}

/// A label that everything a selector matches has; absent when it asks for none in particular.
pub(crate) fn exact(selector: &Labels) -> Option<(&str, &str)> {
    selector.requirements.iter().find_map(|it| match it {
        Requirement::In(key, values) => match values.as_slice() {
            [value] => Some((key.as_str(), value.as_str())),
            _ => None,
        },
        _ => None,
    })
}

/// The one value under which a selector is found: its exact label, or its namespace. Absent when it
/// matches nothing.
pub(crate) fn selector_value(namespace: &str, selector: &Labels) -> Option<String> {
    if selector.is_nothing {
        return None;
    }
    Some(match exact(selector) {
        Some((key, value)) => index_value(namespace, key, value),
        None => index_value(namespace, "", ""),
    })
}

#[cfg(test)]
mod tests {
    use apimachinery::selector::Labels;

    use super::selector_value;

    fn check(selector: &str, expected: &str) {
        let selector = Labels::parse(selector).unwrap();
        assert_eq!(selector_value("ns", &selector).as_deref(), Some(expected));
    }

    #[test]
    fn a_selector_is_found_under_a_label_that_it_demands() {
        check("app=web,tier in (a,b)", "ns/app=web");
        check("tier in (a,b),zone=x", "ns/zone=x");
        check("tier in (a,b),!gone", "ns/=");
        check("", "ns/=");
        assert_eq!(selector_value("ns", &Labels::nothing()), None);
    }
}
