//! The lines of a table: what upstream's fields are called, of which type they are, and what they
//! are when nobody says.

use serde_json::Value;

use super::form::Form;

/// One kind of configuration file.
pub(crate) struct Kind {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    /// `fields.txt` of its folder.
    pub(crate) table: &'static str,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Field {
    /// `authentication.webhook.enabled`
    pub(super) path: &'static str,
    pub(super) is_honored: bool,
    /// 0, "" and false are values of their own.
    pub(super) is_pointer: bool,
    pub(super) form: Form,
    pub(super) default: Value,
}

impl Kind {
    pub(super) fn fields(&self) -> impl Iterator<Item = Field> {
        let lines = self.table.lines().filter(|it| !it.starts_with('#') && !it.is_empty());
        lines.filter_map(Field::parse)
    }
}

impl Field {
    /// `+ path *type default`; `None` is a mistake in the table, which a test finds.
    pub(super) fn parse(line: &'static str) -> Option<Self> {
        let (mark, rest) = line.split_at_checked(2)?;
        let (path, rest) = rest.split_once(' ')?;
        let (form, default) = rest.trim_start().split_once(' ')?;
        Some(Self {
            path,
            is_honored: mark == "+ ",
            is_pointer: form.starts_with('*'),
            form: Form::parse(form.trim_start_matches('*'))?,
            default: serde_json::from_str(default).ok()?,
        })
    }

    /// Whether it stands for the default, whatever that is.
    pub(super) fn is_unset(&self, value: &Value) -> bool {
        let is_zero = match value {
            Value::Null => return true,
            Value::Bool(it) => !it,
            Value::Number(it) => it.as_f64() == Some(0.0),
            Value::String(it) => it.is_empty() || self.form.nanoseconds(value) == Some(0),
            Value::Array(it) => it.is_empty(),
            Value::Object(it) => it.is_empty(),
        };
        is_zero && !self.is_pointer
    }

    pub(super) fn is_default(&self, value: &Value) -> bool {
        self.is_unset(value) || self.form.is_same(value, &self.default)
    }
}
