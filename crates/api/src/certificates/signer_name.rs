//! Names of signers: a domain and a path of one segment.

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::{is_dns_label, is_dns_subdomain};

const DOMAIN_LENGTH_MAX: usize = 253;
/// A label, a subdomain and the dot between them fit into the path.
const LENGTH_MAX: usize = DOMAIN_LENGTH_MAX + 1 + DOMAIN_LENGTH_MAX + 63 + 1;

/// Of Kubernetes' own signers.
pub(super) fn is_of_kubernetes(name: &str) -> bool {
    let domain = name.split('/').next().unwrap_or_default();
    domain == "kubernetes.io" || domain.ends_with(".kubernetes.io")
}

pub(crate) fn validate(name: &str, path: &Path, errors: &mut FieldErrors) {
    if name.is_empty() {
        return errors.required(path, "");
    }
    let [domain, rest] = name.split('/').collect::<Vec<_>>()[..] else {
        let detail =
            "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return errors.invalid(path, name, detail);
    };
    if domain.len() > DOMAIN_LENGTH_MAX {
        errors.too_long(path, DOMAIN_LENGTH_MAX);
    }
    validate_labels(domain, is_dns_label, path, errors);
    if !domain.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        errors.invalid(path, domain, detail);
    }
    validate_labels(rest, is_dns_subdomain, path, errors);
    if name.len() > LENGTH_MAX {
        errors.too_long(path, LENGTH_MAX);
    }
}

/// What is wrong with the first label that is wrong: others would be wrong alike.
fn validate_labels(
    text: &str,
    problems: fn(&str) -> Vec<String>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let wrong = text.split('.').map(|it| (it, problems(it))).find(|it| !it.1.is_empty());
    let Some((label, problems)) = wrong else { return };
    for problem in problems {
        errors.invalid(path, text, &format!("validating label {label:?}: {problem}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, expected: &[&str]) {
        let mut errors = FieldErrors::new();
        validate(name, &Path::new("at"), &mut errors);
        let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), expected.len(), "{name}: {found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{found} does not start with {expected}");
        }
    }

    #[test]
    fn a_signer_is_a_domain_and_a_path() {
        check("example.org/signer", &[]);
        check("kubernetes.io/kube-apiserver-client", &[]);
        check("", &["at: Required value"]);
        for name in ["signer", "example.org/a/b"] {
            check(
                name,
                &[&format!("at: Invalid value: {name:?}: must be a fully qualified domain")],
            );
        }
        check(
            "org/signer",
            &["at: Invalid value: \"org\": should be a domain with at least two segments"],
        );
        check(
            "Example.org/A.B",
            &[
                "at: Invalid value: \"Example.org\": validating label \"Example\": a lowercase RFC 1123 label",
                "at: Invalid value: \"A.B\": validating label \"A\": a lowercase RFC 1123 subdomain",
            ],
        );
        let long = format!("example.org/{}", ["a"; 300].join("."));
        check(&long, &["at: Too long"]);
    }

    #[test]
    fn kubernetes_has_a_domain_and_those_below() {
        assert!(is_of_kubernetes("kubernetes.io/a") && is_of_kubernetes("x.kubernetes.io/a"));
        assert!(!is_of_kubernetes("xkubernetes.io/a") && !is_of_kubernetes("example.org/a"));
    }
}
