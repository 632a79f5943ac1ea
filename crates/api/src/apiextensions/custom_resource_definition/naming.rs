//! Which names of a CustomResourceDefinition it gets: those that no built-in kind and no other
//! definition of its group has. Pure; the controller of the API server calls it and writes the
//! status.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{
    CustomResourceDefinition, CustomResourceDefinitionCondition, CustomResourceDefinitionNames,
    CustomResourceDefinitionStatus, approval, conversion, is_established, structure,
};
use crate::kind::Kind;

/// The names that built-in kinds and other definitions of one group hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TakenNames {
    /// Plurals, singulars and short names: they share one space.
    resources: BTreeSet<String>,
    /// Kinds and list kinds.
    kinds: BTreeSet<String>,
}

impl TakenNames {
    /// The accepted names of all in `others` that share the group of `crd` and are not `crd`
    /// itself.
    pub fn beside<'a>(
        crd: &CustomResourceDefinition,
        others: impl IntoIterator<Item = &'a CustomResourceDefinition>,
    ) -> Self {
        let accepted = others
            .into_iter()
            .filter(|it| it.spec.group == crd.spec.group && it.metadata.name != crd.metadata.name)
            .filter_map(|it| it.status.as_ref()?.accepted_names.as_ref());
        Self::of(accepted)
    }

    /// All of these.
    pub fn of<'a>(accepted: impl IntoIterator<Item = &'a CustomResourceDefinitionNames>) -> Self {
        let mut taken = Self::default();
        for names in accepted {
            let singular = names.singular.iter();
            let short = names.short_names.iter().flatten();
            taken
                .resources
                .extend([&names.plural].into_iter().chain(singular).chain(short).cloned());
            taken.kinds.extend([&names.kind].into_iter().chain(&names.list_kind).cloned());
        }
        // A definition that has nothing accepted yet holds empty names.
        taken.resources.remove("");
        taken.kinds.remove("");
        taken
    }

    /// Built-in kinds of the group hold their names for ever.
    #[must_use]
    pub fn with_built_in<'a>(
        mut self,
        group: &str,
        kinds: impl IntoIterator<Item = &'a Arc<dyn Kind>>,
    ) -> Self {
        for names in kinds.into_iter().map(|it| it.names()).filter(|it| it.group == group) {
            self.resources.extend([names.plural.clone(), names.singular.clone()]);
            self.resources.extend(names.short_names.iter().cloned());
            self.kinds.extend([names.kind.clone(), names.list_kind.clone()]);
        }
        self
    }
}

/// The status that `crd` should have, given the names taken by others.
pub fn status_with_names(
    crd: &CustomResourceDefinition,
    taken: &TakenNames,
    now: Timestamp,
) -> CustomResourceDefinitionStatus {
    let mut status = crd.status.clone().unwrap_or_default();
    let accepted = status.accepted_names.take().unwrap_or_default();
    let (names, conflicts) = accept(&crd.spec.names, accepted, taken);
    status.accepted_names = Some(names);

    let condition = |kind: &str, is_true: bool, reason: &str, message: &str| {
        CustomResourceDefinitionCondition {
            type_: kind.to_owned(),
            status: if is_true { "True" } else { "False" }.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_transition_time: Some(Time(now)),
            observed_generation: None,
        }
    };
    let conditions = status.conditions.get_or_insert_default();
    match conflicts.last() {
        None => {
            set(conditions, condition("NamesAccepted", true, "NoConflicts", "no conflicts found"))
        }
        Some((reason, _)) => {
            // The last sort of conflict is the one that is told.
            let last = conflicts.iter().filter(|it| it.0 == *reason).map(|it| it.1.as_str());
            let message = match last.collect::<Vec<_>>().as_slice() {
                [only] => (*only).to_owned(),
                several => format!("[{}]", several.join(", ")),
            };
            set(conditions, condition("NamesAccepted", false, reason, &message));
        }
    }
    // Once established, always: objects may exist.
    if !is_established(crd) {
        let established = if !conflicts.is_empty() {
            condition("Established", false, "NotAccepted", "not all names are accepted")
        } else if !conversion::has_good_ca_bundle(crd) {
            let message = "The conversion webhook CABundle is invalid";
            condition("Established", false, "InvalidCABundle", message)
        } else {
            let message = "the initial names have been accepted";
            condition("Established", true, "InitialNamesAccepted", message)
        };
        set(conditions, established);
    }
    if let Some(approval) = approval::condition(crd) {
        set(
            conditions,
            CustomResourceDefinitionCondition { last_transition_time: Some(Time(now)), ..approval },
        );
    }
    match structure::violations(crd) {
        None => conditions.retain(|it| it.type_ != structure::CONDITION),
        Some(message) => {
            set(conditions, condition(structure::CONDITION, true, "Violations", &message));
        }
    }
    status
}

/// The names that hold from now on, with (reason, message) of each that is refused.
fn accept(
    wanted: &CustomResourceDefinitionNames,
    accepted: CustomResourceDefinitionNames,
    taken: &TakenNames,
) -> (CustomResourceDefinitionNames, Vec<(&'static str, String)>) {
    let mut conflicts = Vec::new();
    let mut validate = |name: &str, held: &str, used: &BTreeSet<String>, reason: &'static str| {
        let is_free = name == held || !used.contains(name);
        if !is_free {
            conflicts.push((reason, format!("{name:?} is already in use")));
        }
        is_free
    };
    let text = |it: &Option<String>| it.clone().unwrap_or_default();
    let mut names = accepted;
    if validate(&wanted.plural, &names.plural, &taken.resources, "PluralConflict") {
        names.plural.clone_from(&wanted.plural);
    }
    if validate(
        &text(&wanted.singular),
        &text(&names.singular),
        &taken.resources,
        "SingularConflict",
    ) {
        names.singular.clone_from(&wanted.singular);
    }
    let held: BTreeSet<String> = names.short_names.iter().flatten().cloned().collect();
    // Every short name is looked at, so that all conflicts are reported.
    let n_refused = wanted
        .short_names
        .iter()
        .flatten()
        .filter(|it| {
            !held.contains(*it) && !validate(it, "", &taken.resources, "ShortNamesConflict")
        })
        .count();
    if n_refused == 0 {
        names.short_names.clone_from(&wanted.short_names);
    }
    if validate(&wanted.kind, &names.kind, &taken.kinds, "KindConflict") {
        names.kind.clone_from(&wanted.kind);
    }
    if validate(&text(&wanted.list_kind), &text(&names.list_kind), &taken.kinds, "ListKindConflict")
    {
        names.list_kind.clone_from(&wanted.list_kind);
    }
    names.categories.clone_from(&wanted.categories);
    (names, conflicts)
}

/// Says in the status how far the removal of the definition's objects is.
pub fn mark_terminating(
    crd: &mut CustomResourceDefinition,
    (reason, message): (&str, &str),
    now: Timestamp,
) {
    let status = crd.status.get_or_insert_default();
    let condition = CustomResourceDefinitionCondition {
        type_: "Terminating".to_owned(),
        status: "True".to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_transition_time: Some(Time(now)),
        observed_generation: None,
    };
    set(status.conditions.get_or_insert_default(), condition);
}

/// Adds or replaces; the time moves only with the status. Which generation a condition is about stays
/// as somebody has said it: nobody here says so, as upstream.
fn set(
    conditions: &mut Vec<CustomResourceDefinitionCondition>,
    mut condition: CustomResourceDefinitionCondition,
) {
    match conditions.iter_mut().find(|it| it.type_ == condition.type_) {
        None => conditions.push(condition),
        Some(existing) => {
            if existing.status == condition.status {
                condition.last_transition_time.clone_from(&existing.last_transition_time);
            }
            condition.observed_generation = existing.observed_generation;
            *existing = condition;
        }
    }
}
