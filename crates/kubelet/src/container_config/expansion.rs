//! `$(NAME)` in environment values, commands and arguments.
//! <https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/>

/// `$(NAME)` becomes its value, or stays as it is when there is none; `$$` becomes `$`; any other
/// `$` is itself.
pub(super) fn expand(text: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        rest = after;
        if let Some(after) = rest.strip_prefix('$') {
            expanded.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('(').and_then(|it| it.split_once(')'))
        {
            expanded.push_str(&value(name).unwrap_or_else(|| format!("$({name})")));
            rest = after;
        } else {
            expanded.push('$');
        }
    }
    expanded + rest
}

#[cfg(test)]
mod tests {
    use super::expand;

    #[test]
    fn references_become_values() {
        let check = |text: &str, expected: &str| {
            let value = |name: &str| match name {
                "A" => Some("a".to_owned()),
                "EMPTY" => Some(String::new()),
                "LOOKS" => Some("$(A)".to_owned()),
                _ => None,
            };
            assert_eq!(expand(text, value), expected, "{text:?}");
        };
        check("", "");
        check("plain", "plain");
        check("$(A)", "a");
        check("x-$(A)-$(A)-y", "x-a-a-y");
        check("[$(EMPTY)]", "[]");
        check("$(NONE)", "$(NONE)");
        check("$$(A)", "$(A)");
        check("$$$(A)", "$a");
        check("$$$$(A)", "$$(A)");
        check("$A ${A}", "$A ${A}");
        check("$(A", "$(A");
        check("cost: 5$", "cost: 5$");
        check("$()", "$()");
        // One pass: values are not expanded again.
        check("$(LOOKS)", "$(A)");
        check("ä$(A)ö", "äaö");
    }
}
