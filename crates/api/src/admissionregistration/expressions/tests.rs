//! What expressions see, and what is said of those that do not compile.

use super::{Compiler, Returns, Sees};

const ALL: Sees = Sees { params: true, authorizer: true, patches: false };

fn problem(text: &str, sees: Sees, returns: Returns) -> String {
    match Compiler::default().compile(text, sees, returns) {
        Ok(_) => String::new(),
        Err(problem) => problem.detail,
    }
}

#[test]
fn what_compiles_and_what_is_said_of_the_rest() {
    let rows: &[(&str, Returns, &str)] = &[
        ("object.spec.replicas <= 5", Returns::Bool, ""),
        ("request.userInfo.groups.exists(it, it == 'a')", Returns::Bool, ""),
        ("request.kind.kind == 'Pod' && has(request.options.dryRun)", Returns::Bool, ""),
        ("namespaceObject.metadata.labels['a'] == 'b'", Returns::Bool, ""),
        (
            "namespaceObject.metadata.creationTimestamp < timestamp('2030-01-01T00:00:00Z')",
            Returns::Bool,
            "",
        ),
        ("authorizer.requestResource.check('get').allowed()", Returns::Bool, ""),
        ("'a' + object.metadata.name", Returns::Text, ""),
        ("null", Returns::TextOrNull, ""),
        ("1", Returns::Bool, "must evaluate to bool but got int"),
        ("object.x", Returns::Bool, "must evaluate to bool but got dyn"),
        ("[1]", Returns::Text, "must evaluate to string but got list(int)"),
        ("1", Returns::TextOrNull, "must evaluate to one of [string null_type] but got int"),
        (
            "request.nothing == 1",
            Returns::Bool,
            "compilation failed: ERROR: <input>:1:8: undefined field 'nothing'\n \
             | request.nothing == 1\n | .......^",
        ),
        (
            "variables.x == 1",
            Returns::Bool,
            "compilation failed: ERROR: <input>:1:1: undeclared reference to 'variables' \
             (in container '')\n | variables.x == 1\n | ^",
        ),
    ];
    for (text, returns, expected) in rows {
        assert_eq!(problem(text, ALL, *returns), *expected, "{text}");
    }
}

#[test]
fn what_is_not_given_is_not_seen() {
    let none = Sees { params: false, authorizer: false, patches: false };
    for name in ["params", "authorizer", "jsonpatch.escapeKey('a')", "Object{}"] {
        let said = problem(&format!("[{name}].size() == 1"), none, Returns::Bool);
        assert!(said.contains("undeclared reference"), "{name}: {said}");
    }
}

#[test]
fn variables_have_the_types_of_their_expressions() {
    let mut compiler = Compiler::with_variables();
    compiler.declare("n", "1", ALL).unwrap();
    compiler.declare("twice", "variables.n * 2", ALL).unwrap();
    assert!(compiler.declare("broken", "nothing", ALL).is_err());
    compiler.compile("variables.twice == 2", ALL, Returns::Bool).unwrap();
    compiler.compile("variables.broken.anything == 2", ALL, Returns::Bool).unwrap();
    let said = compiler.compile("variables.twice == 'a'", ALL, Returns::Bool).unwrap_err();
    assert!(said.detail.contains("found no matching overload"), "{}", said.detail);
    let said = compiler.compile("variables.later == 1", ALL, Returns::Bool).unwrap_err();
    assert!(said.detail.contains("undefined field 'later'"), "{}", said.detail);
}

#[test]
fn mutations_make_objects_and_patches() {
    let sees = Sees { patches: true, ..ALL };
    let object = "Object{metadata: Object.metadata{labels: {'a': 'b'}}}";
    assert_eq!(problem(object, sees, Returns::Object), "");
    let patch = "[JSONPatch{op: 'add', path: '/a/' + jsonpatch.escapeKey('b/c'), value: 1}]";
    assert_eq!(problem(patch, sees, Returns::JsonPatches), "");
    let said = problem("{'a': 1}", sees, Returns::Object);
    assert_eq!(said, "must evaluate to Object but got map(string, int)");
}

#[test]
fn expressions_are_held_against_the_kinds_that_a_policy_is_for() {
    let kinds = crate::kinds();
    let kind = |group: &str, plural: &str| {
        let is_it = |it: &&std::sync::Arc<dyn crate::Kind>| {
            it.names().group == group && it.names().plural == plural
        };
        let found = kinds.iter().find(is_it).unwrap();
        super::typing::Known { kind: found.names().gvk(), schema: found.schema() }
    };
    let spec = serde_json::json!({
        "variables": [{"name": "replicas", "expression": "object.spec.replicas"}],
        "validations": [
            {"expression": "object.spec.replicas > 1 && variables.replicas < 5"},
            {"expression": "object.spec.replicas > '1'"},
            {"expression": "object.spec.template.spec.containers.all(it, it.image != '')",
             "messageExpression": "object.spec.replica"},
            {"expression": "object.metadata.labels['a'] == 'b' && \
                            object.metadata.creationTimestamp < timestamp('2030-01-01T00:00:00Z')"},
        ],
    });
    let spec = serde_json::from_value(spec).unwrap();
    let objects = [kind("apps", "deployments")];
    let said = super::typing::warnings(&spec, &objects, None);
    let said: Vec<_> = said.iter().map(|it| (&*it.field_ref, &*it.warning)).collect();
    assert_eq!(
        said,
        [
            (
                "spec.validations[1].expression",
                "apps/v1, Kind=Deployment: ERROR: <input>:1:22: found no matching overload for \
                 '_>_' applied to '(int, string)'\n | object.spec.replicas > '1'\n \
                 | .....................^\n",
            ),
            (
                "spec.validations[2].messageExpression",
                "apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'replica'\n \
                 | object.spec.replica\n | ...........^\n",
            ),
        ]
    );
}
