//! What a stream is asked for: of a log in its query, of the others in options, which are an object
//! that admission decides about and may change. Both become what a kubelet is asked for.

use api::Dynamic;
use apimachinery::ApiError;
use serde_json::{Map, Value, json};

use super::location::Stream;
use super::log_options;
use crate::http::query::Query;

/// Fields of the options, and a kubelet's words for them.
const FLAGS: &[(&str, &str)] =
    &[("stdin", "input"), ("tty", "tty"), ("stdout", "output"), ("stderr", "error")];

/// `None` for a log, which is read like an object.
pub(super) fn of_query(stream: Stream, query: &Query) -> Result<Option<Dynamic>, ApiError> {
    let kind = match stream {
        Stream::Attach => "PodAttachOptions",
        Stream::Exec => "PodExecOptions",
        Stream::PortForward => "PodPortForwardOptions",
        Stream::Log => return Ok(None),
    };
    let rest = match stream {
        Stream::PortForward => ports_of(query)?,
        _ => fields_of(stream, query),
    };
    let (api_version, kind) = ("v1".to_owned(), kind.to_owned());
    Ok(Some(Dynamic { api_version, kind, rest, ..Dynamic::default() }))
}

fn fields_of(stream: Stream, query: &Query) -> Map<String, Value> {
    let mut fields = Map::new();
    let says_what = ["stdin", "stdout", "stderr"].iter().any(|it| query.get(it).is_some());
    for (field, _) in FLAGS {
        let is_output = matches!(*field, "stdout" | "stderr");
        if query.flag(field) || (is_output && !says_what) {
            fields.insert((*field).to_owned(), json!(true));
        }
    }
    if let Some(container) = query.get("container").filter(|it| !it.is_empty()) {
        fields.insert("container".to_owned(), json!(container));
    }
    let command: Vec<&str> = query.all("command").collect();
    if stream == Stream::Exec && !command.is_empty() {
        fields.insert("command".to_owned(), json!(command));
    }
    fields
}

fn ports_of(query: &Query) -> Result<Map<String, Value>, ApiError> {
    let texts = query.all("ports").flat_map(|it| it.split(',')).map(str::trim);
    let ports = texts.filter(|it| !it.is_empty()).map(|text| {
        text.parse().map_err(|_| {
            let why = format!("strconv.ParseInt: parsing {text:?}: invalid syntax");
            ApiError::bad_request(why)
        })
    });
    let ports: Vec<i32> = ports.collect::<Result<_, _>>()?;
    let field = (!ports.is_empty()).then(|| ("ports".to_owned(), json!(ports)));
    Ok(field.into_iter().collect())
}

/// What a kubelet is asked for.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// Empty: the only one.
    pub(super) container: String,
    pub(super) pairs: Vec<(&'static str, String)>,
}

impl Wanted {
    pub(super) fn of_log(query: &Query) -> Result<Self, ApiError> {
        let container = query.get("container").unwrap_or_default().to_owned();
        Ok(Self { container, pairs: log_options::parse(query)? })
    }

    pub(super) fn of_options(options: &Dynamic) -> Self {
        let field = |name: &str| options.rest.get(name).unwrap_or(&Value::Null);
        let list = |name: &str| field(name).as_array().into_iter().flatten();
        let mut pairs = Vec::new();
        let set = FLAGS.iter().filter(|it| field(it.0) == &json!(true));
        pairs.extend(set.map(|it| (it.1, "1".to_owned())));
        pairs.extend(list("ports").map(|it| ("port", it.to_string())));
        let command = list("command").filter_map(Value::as_str);
        pairs.extend(command.map(|it| ("command", it.to_owned())));
        Self { container: field("container").as_str().unwrap_or_default().to_owned(), pairs }
    }
}
