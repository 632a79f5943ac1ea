//! Who is asked, and how: the text of a value, or why there is none.

use cel::garbage::typed::{Case, Generator};
use cel::{Bindings, Env, Type, UNTYPED, from_json};
use cel_core::CelType;
use kube_cel::KubeCelExt as _;
use kube_cel::cel as other;

use crate::values;

/// What became of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Value(String),
    /// It was refused before it was evaluated: a syntax error, or its types do not fit.
    Refused(String),
    Failed(String),
}

/// Ours, with Kubernetes' libraries.
pub struct Ours<'g> {
    env: Env,
    generator: &'g Generator,
}

impl<'g> Ours<'g> {
    pub fn new(generator: &'g Generator) -> Self {
        let env = apimachinery::cel::environment().clone();
        let variables = generator.variables().iter();
        let env = variables.fold(env, |env, (name, it)| env.variable(name, it.clone()));
        Self { env, generator }
    }

    pub fn answer(&self, case: &Case) -> Answer {
        let checked = match self.env.compile(&case.text) {
            Ok(checked) => checked,
            Err(issues) => return Answer::Refused(issues.to_string()),
        };
        // Without folding: a constant that has no value fails when it is needed.
        let program = match checked.program_unfolded() {
            Ok(program) => program,
            Err(err) => return Answer::Failed(err.to_string()),
        };
        let named = self.generator.variables().iter().zip(&case.values);
        let variables = named.fold(Bindings::new(), |all, ((name, _), json)| {
            all.with(name, from_json(json, &UNTYPED).expect("JSON without a shape"))
        });
        match program.evaluate(&variables, u64::MAX).result {
            Ok(value) => Answer::Value(values::ours(&value)),
            Err(err) => Answer::Failed(err.to_string()),
        }
    }
}

/// `cel-core`.
pub struct CelCore<'g> {
    env: cel_core::Env,
    generator: &'g Generator,
}

impl<'g> CelCore<'g> {
    pub fn new(generator: &'g Generator) -> Self {
        let mut env = cel_core::Env::with_standard_library().with_all_extensions();
        for (name, it) in generator.variables() {
            env.add_variable(name.clone(), cel_core_type(it));
        }
        Self { env, generator }
    }

    pub fn answer(&self, case: &Case) -> Answer {
        let compiled = self.env.compile(&case.text).and_then(|ast| self.env.program(&ast));
        let program = match compiled {
            Ok(program) => program,
            Err(err) => return Answer::Refused(format!("{err:?}")),
        };
        let mut variables = cel_core::MapActivation::new();
        for ((name, _), json) in self.generator.variables().iter().zip(&case.values) {
            variables.insert(name.clone(), values::cel_core_from(json));
        }
        match values::cel_core(&program.eval(&variables)) {
            Ok(text) => Answer::Value(text),
            Err(why) => Answer::Failed(why),
        }
    }
}

fn cel_core_type(it: &Type) -> CelType {
    match it {
        Type::Bool => CelType::Bool,
        Type::Int => CelType::Int,
        Type::Double => CelType::Double,
        Type::String => CelType::String,
        Type::List(inner) => CelType::list(cel_core_type(inner)),
        Type::Map(pair) => CelType::map(cel_core_type(&pair.0), cel_core_type(&pair.1)),
        other => panic!("no variable is {other}"),
    }
}

/// `kube-cel`, which looks at no types before it evaluates.
pub struct KubeCel<'g> {
    generator: &'g Generator,
}

impl<'g> KubeCel<'g> {
    pub fn new(generator: &'g Generator) -> Self {
        Self { generator }
    }

    pub fn answer(&self, case: &Case) -> Answer {
        // Its parser and evaluator panic on some expressions.
        let text = case.text.clone();
        let values: Vec<other::Value> = case.values.iter().map(values::kube_from).collect();
        let names: Vec<String> = self.generator.variables().iter().map(|it| it.0.clone()).collect();
        let run = move || {
            let program = match other::Program::compile(&text) {
                Ok(program) => program,
                Err(err) => return Answer::Refused(err.to_string()),
            };
            let mut context = other::Context::default().with_all();
            for (name, value) in names.into_iter().zip(values) {
                context.add_variable_from_value(name, value);
            }
            match program.execute(&context) {
                Ok(value) => Answer::Value(values::kube(&value)),
                Err(err) => Answer::Failed(err.to_string()),
            }
        };
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_or_else(|_| Answer::Failed("it panicked".to_owned()))
    }
}
