//! What is wrong with a PriorityLevelConfiguration.

use k8s_openapi::api::flowcontrol::v1::{
    ExemptPriorityLevelConfiguration, LimitResponse, LimitedPriorityLevelConfiguration,
    PriorityLevelConfiguration, PriorityLevelConfigurationSpec, QueuingConfiguration,
};

use apimachinery::FieldErrors;
use apimachinery::field::Path;

use crate::check::{self, text};
use crate::flowcontrol::flow_schema::validate_condition_types;
use crate::flowcontrol::{EXEMPT, bootstrap};
use crate::{codec, semantic};

/// What v1beta3 kept a share of zero in.
const ZERO_SHARES_ANNOTATION: &str = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";
const TYPES: &[&str] = &["Exempt", "Limited"];
const RESPONSES: &[&str] = &["Queue", "Reject"];
const QUEUES_MAX: i32 = 10_000_000;
/// Of the hash that a hand of queues is dealt by.
const ENTROPY_BITS_MAX: u32 = 60;

pub(super) fn validate(level: &PriorityLevelConfiguration, errors: &mut FieldErrors) {
    let annotations = level.metadata.annotations.as_ref();
    if annotations.is_some_and(|it| it.contains_key(ZERO_SHARES_ANNOTATION)) {
        let detail = format!("annotation '{ZERO_SHARES_ANNOTATION}' is forbidden");
        errors.forbidden(&Path::new("metadata").child("annotations"), &detail);
    }
    let absent = PriorityLevelConfigurationSpec::default();
    let spec = level.spec.as_ref().unwrap_or(&absent);
    let (name, path) = (text(level.metadata.name.as_ref()), Path::new("spec"));
    validate_spec(name, spec, &path, errors);
    if let Some(fixed) = bootstrap::mandatory_level(name) {
        validate_fixed(name, spec, &fixed.spec.unwrap_or_default(), errors);
    }
}

/// Of the level of those who never wait, what it counts for is the administrator's.
fn validate_fixed(
    name: &str,
    spec: &PriorityLevelConfigurationSpec,
    fixed: &PriorityLevelConfigurationSpec,
    errors: &mut FieldErrors,
) {
    let mut compared = spec.clone();
    let mut but = "";
    if name == EXEMPT {
        compared.exempt.clone_from(&fixed.exempt);
        but = " except the 'spec.exempt' field";
    }
    if !semantic::equal(&compared, fixed) {
        let detail = format!("spec of '{name}'{but} must equal the fixed value");
        errors.invalid(&Path::new("spec"), codec::tree(spec), &detail);
    }
}

fn validate_spec(
    name: &str,
    spec: &PriorityLevelConfigurationSpec,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let (type_, path_type) = (spec.type_.as_str(), path.child("type"));
    if (name == EXEMPT) != (type_ == "Exempt") {
        let detail = "must be 'Exempt' if and only if `name` is 'exempt'";
        errors.invalid(&path_type, type_, detail);
    }
    let (path_limited, path_exempt) = (path.child("limited"), path.child("exempt"));
    match type_ {
        "Exempt" => {
            if spec.limited.is_some() {
                errors.forbidden(&path_limited, "must be nil if the type is not Limited");
            }
            if let Some(exempt) = &spec.exempt {
                validate_exempt(exempt, &path_exempt, errors);
            }
        }
        "Limited" => {
            if spec.exempt.is_some() {
                errors.forbidden(&path_exempt, "must be nil if the type is Limited");
            }
            match &spec.limited {
                Some(limited) => validate_limited(limited, &path_limited, errors),
                None => errors.required(&path_limited, "must not be empty when type is Limited"),
            }
        }
        _ => check::one_of(type_, TYPES, &path_type, errors),
    }
}

fn validate_shares(shares: Option<i32>, path: &Path, errors: &mut FieldErrors) {
    if let Some(shares @ ..0) = shares {
        let path = path.child("nominalConcurrencyShares");
        errors.invalid(&path, shares, "must be a non-negative integer");
    }
}

fn validate_lendable(percent: Option<i32>, path: &Path, errors: &mut FieldErrors) {
    if let Some(percent) = percent {
        check::in_range(i64::from(percent), 0, 100, &path.child("lendablePercent"), errors);
    }
}

fn validate_exempt(
    exempt: &ExemptPriorityLevelConfiguration,
    path: &Path,
    errors: &mut FieldErrors,
) {
    validate_shares(exempt.nominal_concurrency_shares, path, errors);
    validate_lendable(exempt.lendable_percent, path, errors);
}

fn validate_limited(
    limited: &LimitedPriorityLevelConfiguration,
    path: &Path,
    errors: &mut FieldErrors,
) {
    validate_shares(limited.nominal_concurrency_shares, path, errors);
    let response = limited.limit_response.clone().unwrap_or_default();
    validate_response(&response, &path.child("limitResponse"), errors);
    validate_lendable(limited.lendable_percent, path, errors);
    if let Some(percent @ ..0) = limited.borrowing_limit_percent {
        let path = path.child("borrowingLimitPercent");
        errors.invalid(&path, percent, "if specified, must be a non-negative integer");
    }
}

fn validate_response(response: &LimitResponse, path: &Path, errors: &mut FieldErrors) {
    let path_queuing = path.child("queuing");
    match (response.type_.as_str(), &response.queuing) {
        ("Reject", None) => {}
        ("Reject", Some(_)) => {
            let detail = "must be nil if limited.limitResponse.type is not Limited";
            errors.forbidden(&path_queuing, detail);
        }
        ("Queue", None) => {
            let detail = "must not be empty if limited.limitResponse.type is Limited";
            errors.required(&path_queuing, detail);
        }
        ("Queue", Some(queuing)) => validate_queuing(queuing, &path_queuing, errors),
        (other, _) => check::one_of(other, RESPONSES, &path.child("type"), errors),
    }
}

fn validate_queuing(queuing: &QueuingConfiguration, path: &Path, errors: &mut FieldErrors) {
    let length = queuing.queue_length_limit.unwrap_or(0);
    let (queues, hand) = (queuing.queues.unwrap_or(0), queuing.hand_size.unwrap_or(0));
    let positive = "must be positive";
    if length <= 0 {
        errors.invalid(&path.child("queueLengthLimit"), length, positive);
    }
    let path_queues = path.child("queues");
    if queues <= 0 {
        errors.invalid(&path_queues, queues, positive);
    } else if queues > QUEUES_MAX {
        errors.invalid(&path_queues, queues, &format!("must not be greater than {QUEUES_MAX}"));
    }
    let path_hand = path.child("handSize");
    if hand <= 0 {
        errors.invalid(&path_hand, hand, positive);
    } else if hand > queues {
        let detail = format!("should not be greater than queues ({queues})");
        errors.invalid(&path_hand, hand, &detail);
    } else if entropy_bits(queues, hand) > f64::from(ENTROPY_BITS_MAX) {
        let detail = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {ENTROPY_BITS_MAX}"
        );
        errors.invalid(&path_hand, hand, &detail);
    }
}

/// What dealing a hand of that many queues uses up of a hash, rounded up.
fn entropy_bits(queues: i32, hand: i32) -> f64 {
    (f64::from(queues).log2() * f64::from(hand)).ceil()
}

pub(super) fn validate_status(level: &PriorityLevelConfiguration, errors: &mut FieldErrors) {
    let conditions = level.status.as_ref().and_then(|it| it.conditions.as_deref());
    let types = conditions.unwrap_or_default().iter().map(|it| text(it.type_.as_ref()));
    validate_condition_types(types, errors);
}
