//! Kubeconfig files as text: reading one context out of them, and adding or removing our own
//! without touching others. Pure: the caller reads and writes the files.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("parsing the kubeconfig")]
    Parse(#[source] Box<serde_saphyr::Error>),
    #[error("writing the kubeconfig")]
    Render(#[source] Box<serde_saphyr::SerializeError>),
    #[error("the kubeconfig is not a mapping")]
    NotAMapping,
    #[error("the kubeconfig has no current-context and none was named")]
    NoContext,
    #[error("the kubeconfig has no {what} named {name:?}")]
    Missing { what: &'static str, name: String },
    #[error("{field} is not base64")]
    Base64 { field: &'static str },
    #[error("the user {user:?} has {field}, which cannot be used here")]
    Unusable { user: String, field: &'static str },
}

/// Something that a kubeconfig has inside or in a file beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Inline(Vec<u8>),
    /// As written; relative paths are relative to the kubeconfig's folder.
    File(String),
}

/// What is needed to reach a cluster as one user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    pub name: String,
    pub server: String,
    pub namespace: Option<String>,
    pub ca: Option<Source>,
    pub tls_server_name: Option<String>,
    pub is_insecure: bool,
    pub client_certificate: Option<Source>,
    pub client_key: Option<Source>,
    pub token: Option<Source>,
}

/// How one user shows who it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    pub client_certificate: Option<Source>,
    pub client_key: Option<Source>,
    pub token: Option<Source>,
    /// With its password.
    pub username: Option<(String, String)>,
}

/// All users, for whoever is somebody else to each of those that it asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Users {
    pub by_name: BTreeMap<String, User>,
    /// The one of the current context.
    pub current: Option<String>,
}

/// A cluster, a user and a context to write, all under one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: String,
    pub server: String,
    pub ca_pem: Vec<u8>,
    pub credential: Credential,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    Certificate { certificate_pem: Vec<u8>, key_pem: Vec<u8> },
    Token(String),
}

/// Whether it can be read, and so extended.
pub fn validate(text: &str) -> Result<(), Error> {
    parse(text).map(drop)
}

/// The context of this name, or the current one.
pub fn pick(text: &str, context: Option<&str>) -> Result<Context, Error> {
    let config = parse(text)?;
    let current = text_in(&config, "current-context");
    let name = context.filter(|it| !it.is_empty()).or(current.as_deref());
    let name = name.ok_or(Error::NoContext)?;
    let context = named(&config, "contexts", "context", name)?;
    let cluster_name = text_of(context, "cluster").unwrap_or_default();
    let cluster = named(&config, "clusters", "cluster", &cluster_name)?;
    let user_name = text_of(context, "user").unwrap_or_default();
    let nobody = json!({});
    let user =
        if user_name.is_empty() { &nobody } else { named(&config, "users", "user", &user_name)? };
    let user = read_user(user)?;
    Ok(Context {
        name: name.to_owned(),
        server: text_of(cluster, "server").unwrap_or_default(),
        namespace: text_of(context, "namespace"),
        ca: source(cluster, "certificate-authority-data", "certificate-authority")?,
        tls_server_name: text_of(cluster, "tls-server-name"),
        is_insecure: cluster.get("insecure-skip-tls-verify") == Some(&Value::Bool(true)),
        client_certificate: user.client_certificate,
        client_key: user.client_key,
        token: user.token,
    })
}

/// Ways to show who one is that need somebody else, or pretend to be somebody else.
const UNUSABLE: &[&str] = &["exec", "auth-provider", "as", "as-uid", "as-groups", "as-user-extra"];

/// Every user. One that could not be what it says it is is an error.
pub fn users(text: &str) -> Result<Users, Error> {
    let config = parse(text)?;
    let mut by_name = BTreeMap::new();
    for item in config.get("users").and_then(Value::as_array).into_iter().flatten() {
        let name = text_of(item, "name").unwrap_or_default();
        let user = item.get("user").unwrap_or(&Value::Null);
        let is_there = |it: &&&str| user.get(**it).is_some_and(|it| !it.is_null());
        if let Some(field) = UNUSABLE.iter().find(is_there) {
            return Err(Error::Unusable { user: name, field });
        }
        by_name.insert(name, read_user(user)?);
    }
    let current = text_in(&config, "current-context");
    let context = current.and_then(|it| named(&config, "contexts", "context", &it).ok());
    Ok(Users { by_name, current: context.and_then(|it| text_of(it, "user")) })
}

fn read_user(user: &Value) -> Result<User, Error> {
    let token = text_of(user, "token").map(|it| Source::Inline(it.into_bytes()));
    let (username, password) = (text_of(user, "username"), text_of(user, "password"));
    let is_named = username.is_some() || password.is_some();
    Ok(User {
        client_certificate: source(user, "client-certificate-data", "client-certificate")?,
        client_key: source(user, "client-key-data", "client-key")?,
        token: token.or_else(|| text_of(user, "tokenFile").map(Source::File)),
        username: is_named.then(|| (username.unwrap_or_default(), password.unwrap_or_default())),
    })
}

/// Adds the entry, or replaces the one of its name, and makes it current. What somebody added to a
/// context of that name stays, such as its namespace; so does everything else, but not comments.
/// The context remembers which one was current before it.
pub fn merge(text: &str, entry: &Entry) -> Result<String, Error> {
    let mut config = parse(text)?;
    let name = &entry.name;
    let mut context = match named(&config, "contexts", "context", name) {
        Ok(Value::Object(context)) => context.clone(),
        _ => Map::new(),
    };
    context.insert("cluster".to_owned(), json!(name));
    context.insert("user".to_owned(), json!(name));
    let current = config.get("current-context").and_then(Value::as_str).unwrap_or_default();
    if current != name {
        remember(&mut context, current);
    }
    put(&mut config, "clusters", name, "cluster", cluster_of(entry));
    put(&mut config, "users", name, "user", user_of(&entry.credential));
    put(&mut config, "contexts", name, "context", Value::Object(context));
    config.insert("current-context".to_owned(), json!(name));
    render(config)
}

/// Takes out the cluster, user and context of this name. If the context was current, the one before
/// it is again, if that is still there; contexts that came after it remember the one before it in
/// its place.
pub fn remove(text: &str, name: &str) -> Result<String, Error> {
    let mut config = parse(text)?;
    let before = named(&config, "contexts", "context", name).ok().and_then(remembered);
    let before = before.unwrap_or_default();
    for list in ["clusters", "users", "contexts"] {
        if let Some(Value::Array(items)) = config.get_mut(list) {
            items.retain(|it| it.get("name").and_then(Value::as_str) != Some(name));
        }
    }
    if let Some(Value::Array(contexts)) = config.get_mut("contexts") {
        for context in contexts.iter_mut().filter_map(|it| it.get_mut("context")) {
            if remembered(context).as_deref() == Some(name)
                && let Value::Object(context) = context
            {
                remember(context, &before);
            }
        }
    }
    if config.get("current-context").and_then(Value::as_str) == Some(name) {
        let is_there = named(&config, "contexts", "context", &before).is_ok();
        config.insert("current-context".to_owned(), json!(if is_there { &before } else { "" }));
    }
    render(config)
}

/// The name of our extension of a context, which kubectl leaves alone.
const EXTENSION: &str = "xebec";
const BEFORE: &str = "previous-context";

/// Which context was current before this one.
fn remembered(context: &Value) -> Option<String> {
    let extensions = context.get("extensions")?.as_array()?;
    let ours =
        extensions.iter().find(|it| it.get("name").and_then(Value::as_str) == Some(EXTENSION))?;
    ours.get("extension").and_then(|it| text_of(it, BEFORE))
}

fn remember(context: &mut Map<String, Value>, before: &str) {
    put(context, "extensions", EXTENSION, "extension", json!({ BEFORE: before }));
}

fn parse(text: &str) -> Result<Map<String, Value>, Error> {
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    let value = serde_saphyr::from_str(text).map_err(|err| Error::Parse(Box::new(err)))?;
    match value {
        Value::Object(config) => Ok(config),
        Value::Null => Ok(Map::new()),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(Error::NotAMapping)
        }
    }
}

fn render(mut config: Map<String, Value>) -> Result<String, Error> {
    config.entry("apiVersion").or_insert_with(|| json!("v1"));
    config.entry("kind").or_insert_with(|| json!("Config"));
    config.entry("preferences").or_insert_with(|| json!({}));
    serde_saphyr::to_string(&Value::Object(config)).map_err(|err| Error::Render(Box::new(err)))
}

fn named<'a>(
    config: &'a Map<String, Value>,
    list: &str,
    what: &'static str,
    name: &str,
) -> Result<&'a Value, Error> {
    let items = config.get(list).and_then(Value::as_array);
    items
        .into_iter()
        .flatten()
        .find(|it| it.get("name").and_then(Value::as_str) == Some(name))
        .and_then(|it| it.get(what))
        .ok_or_else(|| Error::Missing { what, name: name.to_owned() })
}

fn put(config: &mut Map<String, Value>, list: &str, name: &str, what: &str, value: Value) {
    let items = config.entry(list).or_insert_with(|| json!([]));
    // `clusters: null` is what kubectl writes for an empty list.
    if !items.is_array() {
        *items = json!([]);
    }
    let Value::Array(items) = items else { return };
    let item = json!({ "name": name, what: value });
    match items.iter_mut().find(|it| it.get("name").and_then(Value::as_str) == Some(name)) {
        Some(existing) => *existing = item,
        None => items.push(item),
    }
}

fn cluster_of(entry: &Entry) -> Value {
    json!({ "server": entry.server, "certificate-authority-data": STANDARD.encode(&entry.ca_pem) })
}

fn user_of(credential: &Credential) -> Value {
    match credential {
        Credential::Certificate { certificate_pem, key_pem } => json!({
            "client-certificate-data": STANDARD.encode(certificate_pem),
            "client-key-data": STANDARD.encode(key_pem),
        }),
        Credential::Token(token) => json!({ "token": token }),
    }
}

fn text_in(config: &Map<String, Value>, field: &str) -> Option<String> {
    config.get(field).and_then(Value::as_str).filter(|it| !it.is_empty()).map(str::to_owned)
}

fn text_of(value: &Value, field: &str) -> Option<String> {
    value.get(field).and_then(Value::as_str).filter(|it| !it.is_empty()).map(str::to_owned)
}

fn source(value: &Value, inline: &'static str, file: &str) -> Result<Option<Source>, Error> {
    let Some(encoded) = text_of(value, inline) else {
        return Ok(text_of(value, file).map(Source::File));
    };
    let bytes = STANDARD.decode(encoded.trim()).map_err(|_| Error::Base64 { field: inline })?;
    Ok(Some(Source::Inline(bytes)))
}

#[cfg(test)]
mod tests {
    use super::{Credential, Entry, Source, merge, parse, pick, remove};

    const OTHERS: &str = r"
apiVersion: v1
kind: Config
current-context: work
clusters:
- name: work
  cluster: {server: 'https://work:6443', certificate-authority: ca.crt, proxy-url: 'http://proxy'}
users:
- name: me
  user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: login, args: ['1', 'yes']}}
contexts:
- name: work
  context: {cluster: work, user: me, namespace: shop}
x-unknown: {kept: true}
";

    fn entry(server: &str) -> Entry {
        let credential = Credential::Token("0123".to_owned());
        let (name, server) = ("xebec".to_owned(), server.to_owned());
        Entry { name, server, ca_pem: b"CA".to_vec(), credential }
    }

    #[test]
    fn a_merge_leaves_everything_else_as_it_is_and_a_removal_undoes_it() {
        let merged = merge(OTHERS, &entry("https://a:1")).unwrap();
        let work = pick(&merged, Some("work")).unwrap();
        assert_eq!(work, pick(OTHERS, None).unwrap());
        assert_eq!(work.ca, Some(Source::File("ca.crt".to_owned())));
        assert_eq!(work.namespace.as_deref(), Some("shop"));

        let mut removed = parse(&remove(&merged, "xebec").unwrap()).unwrap();
        removed.remove("preferences");
        assert_eq!(removed, parse(OTHERS).unwrap());
    }

    #[test]
    fn merging_again_replaces_the_entry_of_the_same_name() {
        let once = merge("", &entry("https://a:1")).unwrap();
        let twice = merge(&once, &entry("https://a:2")).unwrap();
        assert_eq!(parse(&twice).unwrap()["clusters"].as_array().unwrap().len(), 1);
        let context = pick(&twice, None).unwrap();
        assert_eq!((context.name.as_str(), context.server.as_str()), ("xebec", "https://a:2"));
        assert_eq!(context.ca, Some(Source::Inline(b"CA".to_vec())));
        // A token of digits must stay text.
        assert_eq!(context.token, Some(Source::Inline(b"0123".to_vec())));
    }

    fn current(text: &str) -> String {
        parse(text).unwrap()["current-context"].as_str().unwrap().to_owned()
    }

    #[test]
    fn a_removal_gives_back_the_context_before_even_if_that_came_to_be_another() {
        let second = Entry { name: "xebec-b".to_owned(), ..entry("https://b:1") };
        let one = merge(OTHERS, &entry("https://a:1")).unwrap();
        // A restart does not take itself for the one before.
        let one = merge(&one, &entry("https://a:1")).unwrap();
        let two = merge(&one, &second).unwrap();
        assert_eq!(current(&two), "xebec-b");
        assert_eq!(current(&remove(&two, "xebec-b").unwrap()), "xebec");
        assert_eq!(current(&remove(&two, "xebec").unwrap()), "xebec-b");
        let last = remove(&remove(&two, "xebec").unwrap(), "xebec-b").unwrap();
        assert_eq!(current(&last), "work");
        // What the user chose meanwhile stays.
        let chosen = two.replace("current-context: xebec-b", "current-context: work");
        assert_eq!(current(&remove(&chosen, "xebec-b").unwrap()), "work");
        // None was current before, or it is gone.
        assert_eq!(current(&remove(&merge("", &second).unwrap(), "xebec-b").unwrap()), "");
        let gone = remove(&one, "work").unwrap();
        assert_eq!(current(&remove(&gone, "xebec").unwrap()), "");
    }

    #[test]
    fn the_namespace_of_a_context_is_the_users() {
        let merged = merge("", &entry("https://a:1")).unwrap();
        let chosen = merged.replace("    user: xebec\n", "    user: xebec\n    namespace: shop\n");
        assert_ne!(chosen, merged);
        let again = pick(&merge(&chosen, &entry("https://a:2")).unwrap(), None).unwrap();
        assert_eq!(
            (again.server.as_str(), again.namespace.as_deref()),
            ("https://a:2", Some("shop"))
        );
    }

    #[test]
    fn empty_lists_as_kubectl_writes_them_are_filled() {
        let merged = merge("clusters: null\nusers: null\ncontexts: null\n", &entry("https://a:1"));
        assert_eq!(pick(&merged.unwrap(), None).unwrap().server, "https://a:1");
    }

    #[test]
    fn what_is_missing_is_named() {
        let check = |text, context, expected: &str| {
            assert_eq!(pick(text, context).unwrap_err().to_string(), expected);
        };
        check("", None, "the kubeconfig has no current-context and none was named");
        check(OTHERS, Some("home"), r#"the kubeconfig has no context named "home""#);
        check("[]", None, "the kubeconfig is not a mapping");
    }
}
