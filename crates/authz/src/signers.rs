//! What it takes to approve, sign or attest for a signer: a permission on its name, or on all
//! signers of its domain.

use crate::attributes::Attributes;

/// Either of these is enough.
pub fn permissions(verb: &str, signer: &str) -> [Attributes; 2] {
    let domain = signer.split('/').next().unwrap_or_default();
    let all = format!("{domain}/*");
    [signer, &all]
        .map(|name| Attributes::resource(verb, "certificates.k8s.io", "signers").within("", name))
}

#[cfg(test)]
mod tests {
    use super::permissions;

    #[test]
    fn a_permission_is_on_the_name_or_on_the_domain() {
        let names =
            permissions("sign", "example.org/web").map(|it| (it.verb, it.resource, it.name));
        let of = |name: &str| ("sign".to_owned(), "signers".to_owned(), name.to_owned());
        assert_eq!(names, [of("example.org/web"), of("example.org/*")]);
    }
}
