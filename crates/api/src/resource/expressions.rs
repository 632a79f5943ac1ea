//! Expressions that select devices: what they see of a device, what they must come to, and what they
//! may cost (upstream, `dynamic-resource-allocation/cel/compile.go` at 1.36).

use std::sync::{Arc, LazyLock};

use apimachinery::FieldErrors;
use apimachinery::cel::environment;
use apimachinery::cel::libraries::quantity_type;
use apimachinery::field::Path;
use cel::{Env, Operand, SizeEstimate, Sizer, Type, TypeProvider};

const DEVICE: &str = "kubernetes.DRADevice";
const COST_MAX: u64 = 1_000_000;
const DRIVER_CHARS_MAX: u64 = 63;
const DOMAIN_CHARS_MAX: u64 = 63;
const ID_CHARS_MAX: u64 = 32;
const VALUE_CHARS_MAX: u64 = 64;
const ENTRIES_MAX: u64 = 32;

/// The environment is made once: it is the same for every selector.
static ENVIRONMENT: LazyLock<Env> = LazyLock::new(|| {
    environment()
        .clone()
        .extend(cel::library::bindings())
        .provider(Arc::new(DeviceType))
        .variable("device", Type::object(DEVICE))
});

/// Whether an expression can be told of a device, and within the cost that one may have.
pub(super) fn validate(expression: &str, path: &Path, errors: &mut FieldErrors) {
    let checked = match ENVIRONMENT.compile(expression) {
        Ok(checked) => checked,
        Err(issues) => {
            return errors.invalid(path, expression, &format!("compilation failed: {issues}"));
        }
    };
    let output = checked.output_type();
    // An attribute may be a truth, which shows only when it is looked at.
    if !matches!(output, Type::Bool | Type::Dyn) {
        let why = format!("must evaluate to bool or the unknown type, not {output}");
        return errors.invalid(path, expression, &why);
    }
    if let Err(err) = checked.program() {
        return errors.internal(path, &format!("program instantiation failed: {err}"));
    }
    if checked.estimate(&Sizes).max > COST_MAX {
        errors.forbidden(path, "too complex, exceeds cost limit");
    }
}

/// What a device has.
#[derive(Debug)]
struct DeviceType;

impl TypeProvider for DeviceType {
    /// Devices are not made by expressions.
    fn find_type(&self, name: &str) -> Option<Type> {
        (name == DEVICE).then(|| Type::object(DEVICE))
    }

    fn find_field(&self, type_name: &str, field: &str) -> Option<Type> {
        let by_domain = |value| Type::map(Type::String, Type::map(Type::String, value));
        match (type_name, field) {
            (DEVICE, "driver") => Some(Type::String),
            (DEVICE, "allowMultipleAllocations") => Some(Type::Bool),
            (DEVICE, "attributes") => Some(by_domain(Type::Dyn)),
            (DEVICE, "capacity") => Some(by_domain(quantity_type())),
            _ => None,
        }
    }
}

/// How large the parts of a device can be.
struct Sizes;

impl Sizer for Sizes {
    fn size(&self, operand: &Operand<'_>) -> Option<SizeEstimate> {
        let path: Vec<&str> = operand.path.iter().map(|it| &**it).collect();
        most(&path).map(|most| SizeEstimate::new(0, most))
    }
}

fn most(path: &[&str]) -> Option<u64> {
    match path {
        ["device", "driver"] => Some(DRIVER_CHARS_MAX),
        ["device", "allowMultipleAllocations"] => Some(1),
        ["device", "attributes" | "capacity"] => Some(ENTRIES_MAX),
        ["device", "attributes" | "capacity", "@keys"] => Some(DOMAIN_CHARS_MAX),
        ["device", "attributes" | "capacity", "@values"] => Some(ENTRIES_MAX),
        ["device", "attributes" | "capacity", "@values", "@keys"] => Some(ID_CHARS_MAX),
        // Attributes have one bound, whatever they are called; quantities have none of their own.
        ["device", "attributes", "@values", _] => Some(VALUE_CHARS_MAX),
        ["device", "capacity", "@values", "@values"] => Some(0),
        _ => None,
    }
}
