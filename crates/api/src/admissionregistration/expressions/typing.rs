//! Whether the expressions of a policy fit the kinds that it is for. What does not is a warning in
//! its status, and changes nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;

use apimachinery::GroupVersionKind;
use apimachinery::cel::environment;
use apimachinery::cel::libraries::authz;
use apimachinery::schema::{SchemaRef, Type as Form};
use cel::{Env, Type, TypeProvider};
use k8s_openapi::api::admissionregistration::v1::{
    ExpressionWarning, ValidatingAdmissionPolicySpec,
};

use super::{NAMESPACE, REQUEST, Types, VARIABLES, declared_type};

const OBJECT: &str = "kubernetes.object";
const PARAMS: &str = "kubernetes.params";

/// A kind with its schema.
#[derive(Clone, Debug)]
pub struct Known {
    pub kind: GroupVersionKind,
    pub schema: SchemaRef,
}

/// What is wrong with validations and their messages for any of these kinds.
pub fn warnings(
    spec: &ValidatingAdmissionPolicySpec,
    objects: &[Known],
    params: Option<&SchemaRef>,
) -> Vec<ExpressionWarning> {
    let mut warnings = Vec::new();
    for (index, validation) in spec.validations.iter().flatten().enumerate() {
        let message = validation.message_expression.as_deref().filter(|it| !it.is_empty());
        let both =
            [("expression", Some(validation.expression.as_str())), ("messageExpression", message)];
        for (field, text) in both {
            let Some(text) = text else { continue };
            let said = objects.iter().filter_map(|it| problem(spec, it, params, text));
            let said: Vec<String> = said.collect();
            if !said.is_empty() {
                let field_ref = format!("spec.validations[{index}].{field}");
                warnings.push(ExpressionWarning { field_ref, warning: said.join("\n") });
            }
        }
    }
    warnings
}

fn problem(
    spec: &ValidatingAdmissionPolicySpec,
    known: &Known,
    params: Option<&SchemaRef>,
    text: &str,
) -> Option<String> {
    let mut variables = BTreeMap::new();
    let has_params = spec.param_kind.is_some();
    let env = |variables: &BTreeMap<String, Type>| {
        typed_environment(known, has_params, params, variables.clone())
    };
    for variable in spec.variables.iter().flatten() {
        let checked = env(&variables).compile(&variable.expression);
        let declared = checked.map_or(Type::Dyn, |it| declared_type(it.output_type()));
        variables.insert(variable.name.clone(), declared);
    }
    let issues = env(&variables).compile(text).err()?;
    let GroupVersionKind { group, version, kind } = &known.kind;
    Some(format!("{group}/{version}, Kind={kind}: {issues}\n"))
}

fn typed_environment(
    known: &Known,
    has_params: bool,
    params: Option<&SchemaRef>,
    variables: BTreeMap<String, Type>,
) -> Env {
    let object = type_of(&known.schema, OBJECT);
    let mut env = environment()
        .variable("object", object.clone())
        .variable("oldObject", object)
        .variable("namespaceObject", Type::object(NAMESPACE))
        .variable("request", Type::object(REQUEST))
        .variable("variables", Type::object(VARIABLES))
        .variable("authorizer", authz::authorizer_type())
        .variable("authorizer.requestResource", authz::resource_check_type());
    if has_params {
        env = env.variable("params", params.map_or(Type::Dyn, |it| type_of(it, PARAMS)));
    }
    let types = Types { variables: Arc::new(variables), has_patches: false };
    let provider = WithSchemas { types, object: known.schema.clone(), params: params.cloned() };
    env.provider(Arc::new(provider))
}

/// Objects are named by the path that leads to them.
fn type_of(schema: &SchemaRef, name: &str) -> Type {
    let schema = schema.resolve();
    match schema.kind {
        _ if schema.definition.ends_with(".Quantity") => Type::Dyn,
        Form::Object if !schema.properties.is_empty() => Type::object(name),
        Form::Object => match &schema.additional {
            Some(value) => Type::map(Type::String, type_of(value, &format!("{name}.@values"))),
            None => Type::Dyn,
        },
        Form::Array => match &schema.items {
            Some(item) => Type::list(type_of(item, &format!("{name}.@items"))),
            None => Type::Dyn,
        },
        Form::String => match schema.format.as_str() {
            "byte" => Type::Bytes,
            "date-time" | "date" => Type::Timestamp,
            "duration" => Type::Duration,
            "int-or-string" => Type::Dyn,
            _ => Type::String,
        },
        Form::Integer => Type::Int,
        Form::Number => Type::Double,
        Form::Boolean => Type::Bool,
        _ => Type::Dyn,
    }
}

#[derive(Debug)]
struct WithSchemas {
    types: Types,
    object: SchemaRef,
    params: Option<SchemaRef>,
}

impl WithSchemas {
    fn find(&self, type_name: &str) -> Option<SchemaRef> {
        let (root, rest) = match type_name.strip_prefix(OBJECT) {
            Some(rest) => (&self.object, rest),
            None => (self.params.as_ref()?, type_name.strip_prefix(PARAMS)?),
        };
        let mut parts = rest.split('.').filter(|it| !it.is_empty());
        parts.try_fold(root.resolve(), |schema, part| {
            let below = match part {
                "@items" => schema.items.as_ref(),
                "@values" => schema.additional.as_ref(),
                field => schema.properties.get(field),
            };
            below.map(|it| it.resolve())
        })
    }
}

impl TypeProvider for WithSchemas {
    fn find_type(&self, name: &str) -> Option<Type> {
        self.types.find_type(name)
    }

    fn find_field(&self, type_name: &str, field: &str) -> Option<Type> {
        if let Some(found) = self.types.find_field(type_name, field) {
            return Some(found);
        }
        let schema = self.find(type_name)?;
        schema.properties.get(field).map(|it| type_of(it, &format!("{type_name}.{field}")))
    }
}
