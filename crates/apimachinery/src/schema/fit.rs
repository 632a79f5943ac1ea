//! Whether an object is as its schema has it, so that neither pruning nor defaulting would change
//! it: one pass over the bytes, without building a tree. Nearly all stored objects are.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::shape::is_open;
use super::strict::Name;
use super::{Schema, SchemaRef, anything};

/// What every object has beside what the schema of a custom resource says.
const OF_EVERY_OBJECT: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// What is done about fields that are absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// They get their defaults.
    FilledIn,
    /// They stay absent, and so do nulls in their place stay.
    Left,
}

/// Text that cannot be read fits nothing.
pub(super) fn fits(schema: &SchemaRef, bytes: &[u8], absent: Absent) -> bool {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let root = Place { schema, absent, is_root: true, takes_null: true };
    root.deserialize(&mut deserializer).is_ok() && deserializer.end().is_ok()
}

/// One value about to be read. Reading ends with an error at the first that does not fit.
struct Place<'a> {
    schema: &'a SchemaRef,
    absent: Absent,
    is_root: bool,
    takes_null: bool,
}

impl Place<'_> {
    fn below<'a>(&self, schema: &'a SchemaRef, takes_null: bool) -> Place<'a> {
        Place { schema, absent: self.absent, is_root: false, takes_null }
    }

    /// Whether a field of this schema may be null.
    fn may_be_null(&self, field: &Schema) -> bool {
        field.nullable || (field.default.is_some() && self.absent == Absent::Left)
    }
}

fn misfit<E: Error>() -> E {
    E::custom("it does not fit")
}

impl<'de> DeserializeSeed<'de> for Place<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Place<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        if self.takes_null { Ok(()) } else { Err(misfit()) }
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let schema = self.schema.resolve();
        let item = schema.items.as_ref().unwrap_or_else(|| anything());
        // Nulls without a default stay in lists.
        let takes_null = item.default.is_none() || self.may_be_null(item);
        while seq.next_element_seed(self.below(item, takes_null))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let schema = self.schema.resolve();
        let is_open = is_open(&schema);
        let mut defaults = match self.absent {
            Absent::FilledIn => Defaults::of(&schema),
            Absent::Left => Defaults::default(),
        };
        while let Some(Name(name)) = map.next_key()? {
            if self.is_root && OF_EVERY_OBJECT.contains(&&*name) {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            match schema.field(&name) {
                Some(field) => {
                    defaults.note(&name);
                    map.next_value_seed(self.below(field, self.may_be_null(field)))?;
                }
                None if is_open => drop(map.next_value::<IgnoredAny>()?),
                None => return Err(misfit()),
            }
        }
        if defaults.are_all_there() { Ok(()) } else { Err(misfit()) }
    }
}

/// The fields that would get a default, and were not read yet.
#[derive(Default)]
struct Defaults<'a>(Vec<&'a str>);

impl<'a> Defaults<'a> {
    fn of(schema: &'a Schema) -> Self {
        let with = schema.properties.iter().filter(|(_, field)| field.default.is_some());
        Self(with.map(|(name, _)| name.as_str()).collect())
    }

    fn note(&mut self, name: &str) {
        if let Some(at) = self.0.iter().position(|it| *it == name) {
            self.0.swap_remove(at);
        }
    }

    fn are_all_there(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::Absent;
    use crate::field::{FieldErrors, Path};
    use crate::schema::{Schema, SchemaRef};

    fn schema(properties: &Value) -> SchemaRef {
        let whole = json!({"type": "object", "properties": properties});
        Schema::from_open_api(&whole, &Path::root(), &mut FieldErrors::new())
    }

    fn check(properties: &Value, object: &Value, filled_in: bool, left: bool) {
        let (schema, bytes) = (schema(properties), object.to_string());
        let fits = |absent| schema.fits(bytes.as_bytes(), absent);
        assert_eq!((fits(Absent::FilledIn), fits(Absent::Left)), (filled_in, left), "{object}");
    }

    #[test]
    fn what_every_object_has_fits_and_what_is_no_json_does_not() {
        let none = json!({});
        let metadata = json!({"name": "a", "creationTimestamp": null, "unknown": 1});
        let object = json!({"apiVersion": "e/v1", "kind": "K", "metadata": metadata});
        check(&none, &object, true, true);
        check(&none, &json!({"spec": 1}), false, false);
        assert!(
            !schema(&none).fits(b"{", Absent::Left) && !schema(&none).fits(b"{}x", Absent::Left)
        );
    }

    #[test]
    fn absent_fields_with_a_default_matter_where_they_are_filled_in() {
        let size = json!({"size": {"type": "integer", "default": 1}, "b": {"type": "string"}});
        check(&size, &json!({"size": 2}), true, true);
        check(&size, &json!({}), false, true);
        check(&size, &json!({"size": null}), false, true);
        check(&size, &json!({"size": 2, "b": null}), false, false);
        let within = json!({"spec": {"type": "object", "properties": size}});
        check(&within, &json!({}), true, true);
        check(&within, &json!({"spec": {}}), false, true);
        check(&within, &json!({"spec": {"size": 3, "metadata": 1}}), false, false);
    }

    #[test]
    fn embedded_objects_have_the_metadata_of_all_objects() {
        let template = json!({"template": {
            "type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true,
        }});
        let object = |metadata| json!({"template": {"kind": "K", "any": 1, "metadata": metadata}});
        check(&template, &object(json!({"name": "a"})), true, true);
        check(&template, &object(json!({"name": "a", "creationTimestamp": null})), false, false);
    }

    fn schemas() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!({"type": "string"})),
            Just(json!({"type": "string", "nullable": true})),
            Just(json!({"type": "string", "default": "x"})),
            Just(json!({"type": "string", "default": "x", "nullable": true})),
            Just(json!({"x-kubernetes-preserve-unknown-fields": true})),
            Just(json!({"x-kubernetes-int-or-string": true})),
            Just(json!({"type": "object"})),
        ];
        leaf.prop_recursive(3, 12, 3, |inner| {
            let named = prop::collection::btree_map("[a-c]", inner.clone(), 0..3);
            prop_oneof![
                (named, any::<bool>(), any::<bool>()).prop_map(|(properties, is_open, has)| {
                    let mut it = json!({"type": "object", "properties": properties});
                    if is_open {
                        it["x-kubernetes-preserve-unknown-fields"] = json!(true);
                    }
                    if has {
                        it["default"] = json!({});
                    }
                    it
                }),
                inner.clone().prop_map(|it| json!({"type": "array", "items": it})),
                inner.prop_map(|it| json!({"type": "object", "additionalProperties": it})),
            ]
        })
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![Just(Value::Null), Just(json!("t")), Just(json!(1.5))];
        leaf.prop_recursive(4, 16, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
                prop::collection::btree_map("[a-d]", inner, 0..3)
                    .prop_map(|it| Value::Object(it.into_iter().collect::<Map<_, _>>())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_fits_is_what_would_stay_as_it_is(schemas in prop::collection::btree_map("[a-c]", schemas(), 0..3), values in prop::collection::btree_map("[a-d]", values(), 0..4)) {
            let schema = schema(&json!(schemas));
            let object = json!(values);
            let mut pruned = object.clone();
            schema.prune(&mut pruned);
            let (mut filled_in, mut left) = (pruned.clone(), pruned);
            schema.apply_defaults(&mut filled_in);
            schema.drop_nulls(&mut left);
            let bytes = object.to_string();
            prop_assert_eq!(schema.fits(bytes.as_bytes(), Absent::FilledIn), filled_in == object);
            prop_assert_eq!(schema.fits(bytes.as_bytes(), Absent::Left), left == object);
        }
    }
}
