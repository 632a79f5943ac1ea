//! What upstream does not tell: which bound would make a rule cheap enough. All else is compared
//! with upstream's answers where custom resources are.

use serde_json::{Value, json};

use super::{Costs, Rules, validate_definition};
use crate::cel::schema::Role;
use crate::field::{FieldErrors, Path};
use crate::schema::Schema;

fn hints(spec: Value, costs: Costs) -> Vec<String> {
    let mut errors = FieldErrors::new();
    let root = json!({"type": "object", "properties": {"spec": spec}});
    let schema = Schema::from_open_api(&root, &Path::root(), &mut errors);
    assert!(errors.is_empty(), "{errors}");
    validate_definition(&schema, &Path::new("schema"), (true, costs), &mut errors);
    let of_rules = errors.iter().filter(|it| it.message.contains("estimated rule cost exceeds"));
    of_rules.map(|it| it.message.split_once("declared)").unwrap().1.to_owned()).collect()
}

#[test]
fn the_bound_that_would_suffice_is_named() {
    let rule = |rule: &str| json!([{"rule": rule}]);
    let names = json!({"type": "array", "items": {"type": "string"}});
    let check = |spec: Value, expected: &str| {
        assert_eq!(hints(spec.clone(), Costs::Judged), [expected], "{spec}");
        assert!(hints(spec, Costs::Accepted).is_empty());
    };
    check(
        json!({
            "type": "object", "properties": {"names": names},
            "x-kubernetes-validations": rule("self.names.all(x, self.names.exists(y, x == y))")
        }),
        "; maxItems: 256 at spec.names, maxLength: 256 at spec.names[*] together would suffice",
    );
    let item = json!({
        "type": "object", "properties": {"name": {"type": "string", "maxLength": 1000}},
        "x-kubernetes-validations": rule("self.name.matches('^a$')")
    });
    check(
        json!({"type": "object", "properties": {"list": {"type": "array", "items": item}}}),
        "; maxItems: 16384 at spec.list would suffice",
    );
    // Neither alone will do.
    let text = json!({
        "type": "string", "x-kubernetes-validations": rule("self.contains(self)")
    });
    check(
        json!({"type": "object", "properties": {"list": {"type": "array", "items": text}}}),
        "; maxItems: 256 at spec.list, maxLength: 256 at spec.list[*] together would suffice",
    );
}

#[test]
fn schemas_without_rules_have_none_to_evaluate() {
    let root = json!({"type": "object", "properties": {"spec": {"type": "object"}}});
    let schema = Schema::from_open_api(&root, &Path::root(), &mut FieldErrors::new());
    assert!(Rules::new(&schema, Role::Resource).is_none());
}
