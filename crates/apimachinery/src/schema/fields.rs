//! Every field below a schema, with its path: for whoever has to say something about each, as tests of
//! what looks into objects do.

use super::{Schema, SchemaRef};

/// Schemas may contain themselves: no deeper than objects nest.
const DEPTH_MAX: usize = 64;

/// `visit` is told of each, and says whether to go on below it. In a path `[]` goes into a list, and
/// `{}` into a map: `spec.containers.[].resources.limits.{}`.
pub fn visit_fields(schema: &SchemaRef, visit: &mut impl FnMut(&str, &Schema) -> bool) {
    walk(schema, &mut Vec::new(), visit);
}

fn walk(schema: &SchemaRef, path: &mut Vec<String>, visit: &mut impl FnMut(&str, &Schema) -> bool) {
    let schema = schema.resolve();
    if path.len() > DEPTH_MAX || !visit(&path.join("."), &schema) {
        return;
    }
    let inner = [("[]", &schema.items), ("{}", &schema.additional)];
    let inner = inner.into_iter().filter_map(|(step, it)| Some((step, it.as_ref()?)));
    let named = schema.properties.iter().map(|(name, it)| (name.as_str(), it));
    for (step, below) in inner.chain(named) {
        path.push(step.to_owned());
        walk(below, path, visit);
        path.pop();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::visit_fields;
    use crate::schema::Definitions;

    #[test]
    fn each_field_has_its_path_and_none_is_deeper_than_wanted() {
        let definitions = Definitions::from_json(&json!({
            "pod": {"type": "object", "properties": {
                "name": {"type": "string"},
                "list": {"type": "array", "items": {"$ref": "#/definitions/item"}},
                "map": {"type": "object", "additionalProperties": {"type": "integer"}},
            }},
            "item": {"type": "object", "properties": {
                "left": {"type": "string"}, "again": {"$ref": "#/definitions/item"},
            }},
        }));
        let pod = definitions.get("pod").expect("it is there");
        let mut found = Vec::new();
        visit_fields(pod, &mut |path, _| {
            found.push(path.to_owned());
            !path.ends_with("again.again")
        });
        let expected = [
            "",
            "list",
            "list.[]",
            "list.[].again",
            "list.[].again.again",
            "list.[].again.left",
            "list.[].left",
            "map",
            "map.{}",
            "name",
        ];
        assert_eq!(found, expected);
        // What contains itself has an end all the same.
        let mut n_fields = 0;
        visit_fields(pod, &mut |_, _| {
            n_fields += 1;
            true
        });
        assert!(n_fields > 100 && n_fields < 300, "{n_fields}");
    }
}
