//! What the server makes is valid, and what becomes of it when somebody changes it.

use apimachinery::FieldErrors;
use k8s_openapi::api::flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration};

use super::{Upkeep, is_unwanted, levels, revised_level, revised_schema, schemas};
use crate::flowcontrol::AUTO_UPDATE_ANNOTATION;
use crate::kind::Resource;

fn problems<T: Resource>(object: &T) -> Vec<String> {
    let mut object = object.clone();
    object.apply_defaults();
    object.prepare_create();
    let mut errors = FieldErrors::new();
    object.validate(&mut errors);
    object.validate_create(&mut errors);
    errors.iter().map(ToString::to_string).collect()
}

/// As it would be stored.
fn stored<T: Resource>(object: &T) -> T {
    let mut object = object.clone();
    object.apply_defaults();
    object.metadata_mut().generation = Some(1);
    object
}

fn schema(name: &str) -> (Upkeep, FlowSchema) {
    let is_it = |it: &&(Upkeep, FlowSchema)| it.1.metadata.name.as_deref() == Some(name);
    schemas().iter().find(is_it).cloned().expect("it is one of them")
}

fn level(name: &str) -> (Upkeep, PriorityLevelConfiguration) {
    let is_it =
        |it: &&(Upkeep, PriorityLevelConfiguration)| it.1.metadata.name.as_deref() == Some(name);
    levels().iter().find(is_it).cloned().expect("it is one of them")
}

#[test]
fn what_the_server_makes_is_valid_and_stays_as_it_is() {
    let levels = levels();
    for (upkeep, level) in &levels {
        assert_eq!(problems(level), [""; 0], "{:?}", level.metadata.name);
        assert_eq!(revised_level(*upkeep, &stored(level), level), None);
    }
    let schemas = schemas();
    for (upkeep, schema) in &schemas {
        assert_eq!(problems(schema), [""; 0], "{:?}", schema.metadata.name);
        assert_eq!(revised_schema(*upkeep, &stored(schema), schema), None);
        let spec = schema.spec.as_ref().unwrap();
        let target = Some(&spec.priority_level_configuration.name);
        assert!(levels.iter().any(|(_, it)| it.metadata.name.as_ref() == target));
    }
    assert_eq!((levels.len(), schemas.len()), (8, 11));
}

#[test]
fn a_mandatory_object_is_made_right_again() {
    let (upkeep, wanted) = schema("catch-all");
    let mut changed = stored(&wanted);
    changed.spec.as_mut().unwrap().matching_precedence = Some(5);
    let annotations = changed.metadata.annotations.as_mut().unwrap();
    annotations.insert(AUTO_UPDATE_ANNOTATION.to_owned(), "false".to_owned());
    let better = revised_schema(upkeep, &changed, &wanted).unwrap();
    assert_eq!(better.spec, wanted.spec);
    assert_eq!(better.metadata.generation, Some(2));
    assert_eq!(better.metadata.annotations.unwrap()[AUTO_UPDATE_ANNOTATION], "true");
}

#[test]
fn a_suggested_object_is_whoevers_who_says_so() {
    let (upkeep, wanted) = schema("service-accounts");
    let mut changed = stored(&wanted);
    changed.spec.as_mut().unwrap().matching_precedence = Some(5);
    let marked = |mark: Option<&str>, generation: i64| {
        let mut it = changed.clone();
        it.metadata.generation = Some(generation);
        it.metadata.annotations =
            mark.map(|mark| [(AUTO_UPDATE_ANNOTATION.to_owned(), mark.to_owned())].into());
        revised_schema(upkeep, &it, &wanted)
    };
    assert_eq!(marked(Some("false"), 2), None);
    assert_eq!(marked(Some("true"), 2).unwrap().spec, wanted.spec);
    // Without a word, a change is what counts.
    let left = marked(None, 2).unwrap();
    assert_eq!(left.spec, changed.spec);
    assert_eq!(left.metadata.annotations.unwrap()[AUTO_UPDATE_ANNOTATION], "false");
    assert_eq!(marked(Some("maybe"), 1).unwrap().spec, wanted.spec);
}

#[test]
fn what_those_who_never_wait_count_for_is_the_administrators() {
    let (upkeep, wanted) = level("exempt");
    let mut changed = stored(&wanted);
    let spec = changed.spec.as_mut().unwrap();
    spec.exempt.as_mut().unwrap().lendable_percent = Some(50);
    assert_eq!(revised_level(upkeep, &changed, &wanted), None);
    changed.spec.as_mut().unwrap().type_ = "Limited".to_owned();
    let better = revised_level(upkeep, &changed, &wanted).unwrap().spec.unwrap();
    assert_eq!(better.type_, "Exempt");
    assert_eq!(better.exempt.unwrap().lendable_percent, Some(50));
}

#[test]
fn what_an_earlier_version_made_is_not_wanted_any_more() {
    assert!(is_unwanted(&super::named("gone")));
    assert!(!is_unwanted(&Default::default()));
}
