//! Names and metadata: value in, problems out.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    ManagedFieldsEntry, ObjectMeta, OwnerReference,
};

use super::*;
use crate::names::{NameRule, Scope};

fn check(rule: fn(&str) -> Vec<String>, valid: &[&str], invalid: &[&str]) {
    for text in valid {
        assert_eq!(rule(text), Vec::<String>::new(), "{text:?}");
    }
    for text in invalid {
        assert!(!rule(text).is_empty(), "{text:?}");
    }
}

#[test]
fn names_follow_their_rules() {
    let long = "a".repeat(64);
    check(is_dns_label, &["a", "0", "a-b", "123-abc"], &["", "-a", "a-", "A", "a.b", "a_b", &long]);
    check(is_dns1035_label, &["a", "a-1"], &["", "1a", "a-", "A"]);
    check(is_dns_subdomain, &["a", "a.b-c.d", &long], &["", ".a", "a..b", "a.-b", "A.b", "a_b"]);
    check(is_path_segment, &["a:b", "system:x", "..."], &[".", "..", "a/b", "a%b"]);
    check(is_port_name, &["http", "a-1"], &["", "1", "a--b", "-a", "a-", "abcdefghijklmnop", "A"]);
    check(
        is_qualified_name,
        &["a", "A_b.c", "example.com/A", "1"],
        &["", "/a", "a/", "a/b/c", "A.com/x", "-a", &long],
    );
    check(is_label_value, &["", "a", "A.b_c-1"], &["-a", "a ", "a/b", &long]);
    check(is_config_key, &["a", ".a", "A_b-c.d"], &["", ".", "..", "..a", "a/b"]);
    check(is_env_var_name, &["A", "a b", "1"], &["", "a=b", "ä"]);
    check(is_ip, &["10.0.0.1", "::1"], &["", "10.0.0", "1.2.3.256", "a"]);
    check(is_cidr, &["10.0.0.0/8", "::/0"], &["10.0.0.0", "10.0.0.0/33", "a/8", "::/129", "::/"]);
    assert!(is_port_number(65_535).is_empty() && !is_port_number(0).is_empty());
}

#[test]
fn problems_are_worded_as_upstream_words_them() {
    assert_eq!(
        is_dns_subdomain("A"),
        [
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
        ]
    );
    assert_eq!(
        is_qualified_name("a b"),
        [
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
        ]
    );
}

fn problems(meta: &ObjectMeta, scope: Scope) -> Vec<String> {
    let mut errors = FieldErrors::new();
    validate_metadata(meta, scope, NameRule::DnsSubdomain, &mut errors);
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn metadata_needs_a_name_and_the_namespace_of_its_scope() {
    let text = |it: &str| Some(it.to_owned());
    let mut meta =
        ObjectMeta { name: text("web"), namespace: text("default"), ..Default::default() };
    assert!(problems(&meta, Scope::Namespaced).is_empty());
    assert_eq!(
        problems(&meta, Scope::Cluster),
        ["metadata.namespace: Forbidden: not allowed on this type"]
    );
    meta.name = None;
    assert_eq!(
        problems(&meta, Scope::Namespaced),
        ["metadata.name: Required value: name or generateName is required"]
    );
    meta.generate_name = text("web-");
    assert!(problems(&meta, Scope::Namespaced).is_empty());
    meta.namespace = None;
    assert_eq!(problems(&meta, Scope::Namespaced), ["metadata.namespace: Required value"]);
}

#[test]
fn only_one_owner_controls() {
    let owner = |name: &str| OwnerReference {
        api_version: "apps/v1".to_owned(),
        kind: "ReplicaSet".to_owned(),
        name: name.to_owned(),
        uid: "1".to_owned(),
        controller: Some(true),
        block_owner_deletion: None,
    };
    let mut meta = ObjectMeta { name: Some("web".to_owned()), ..Default::default() };
    meta.owner_references = Some(vec![owner("a"), owner("b")]);
    let found = problems(&meta, Scope::Cluster);
    assert_eq!(found.len(), 1);
    assert!(found[0].ends_with("references for ReplicaSet/a and ReplicaSet/b"), "{found:?}");
}

#[test]
fn updates_keep_identity_and_add_no_finalizers_while_deleting() {
    let stored = ObjectMeta {
        name: Some("web".to_owned()),
        uid: Some("1".to_owned()),
        generation: Some(3),
        deletion_timestamp: Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
            jiff::Timestamp::UNIX_EPOCH,
        )),
        ..Default::default()
    };
    let update = |change: fn(&mut ObjectMeta)| {
        let mut meta = stored.clone();
        change(&mut meta);
        let mut errors = FieldErrors::new();
        validate_metadata_update(&meta, &stored, &mut errors);
        errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    assert_eq!(update(|_| {}), "");
    assert_eq!(update(|it| it.uid = None), "");
    assert_eq!(
        update(|it| it.name = Some("db".to_owned())),
        "metadata.name: Invalid value: \"db\": field is immutable"
    );
    assert_eq!(
        update(|it| it.finalizers = Some(vec!["a.b/c".to_owned()])),
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"a.b/c\"}"
    );
    assert_eq!(
        update(|it| it.generation = Some(2)),
        "metadata.generation: Invalid value: 2: must not be decremented"
    );
}

#[test]
fn managed_fields_name_printable_managers() {
    let entry = |manager: &str, operation: &str| ManagedFieldsEntry {
        manager: Some(manager.to_owned()),
        operation: Some(operation.to_owned()),
        ..ManagedFieldsEntry::default()
    };
    let check = |entry: ManagedFieldsEntry, expected: &[&str]| {
        let managed_fields = Some(vec![entry]);
        let meta =
            ObjectMeta { name: Some("a".to_owned()), managed_fields, ..ObjectMeta::default() };
        assert_eq!(problems(&meta, Scope::Cluster), expected);
    };
    check(entry("kübectl 1", "Apply"), &[]);
    check(
        entry("a\u{7}", "Apply"),
        &[
            r#"metadata.managedFields[0].manager: Invalid value: "a\u{7}": invalid character U+0007 (at position 1)"#,
        ],
    );
    check(
        entry(&"a".repeat(129), "Update"),
        &["metadata.managedFields[0].manager: Too long: may not be more than 128 bytes"],
    );
    check(
        entry("a", "Delete"),
        &[
            r#"metadata.managedFields[0].operation: Invalid value: "Delete": must be `Apply` or `Update`"#,
        ],
    );
}
