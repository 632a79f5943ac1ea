//! `xebec token`: the tokens with which machines join, by kubeadm's flags.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use apimachinery::ApiError;
use authn::bootstrap::{self, BootstrapToken};
use authn::pki;
use client::{Client, DeleteOptions, ListOptions};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use stdx::World;

use super::access;
use crate::datastore::parse_duration;
use crate::joining::{self, JoinToken, NewToken, Place};
use crate::progress::{align, say};

#[derive(clap::Args)]
pub(crate) struct Flags {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Make a token, and print it as machines join with it
    Create(CreateFlags),
    /// List the tokens, without their secrets
    List(ListFlags),
    /// Delete tokens: nobody joins with them any more, and nodes that have joined stay
    Delete(DeleteFlags),
}

#[derive(clap::Args)]
struct CreateFlags {
    /// The token, as ID.SECRET (default: one that nobody can guess)
    #[arg(value_name = "TOKEN", value_parser = parse_token)]
    token: Option<BootstrapToken>,
    /// How long it is good; 0 is for ever
    #[arg(long, value_name = "TIME", default_value = "24h0m0s", value_parser = parse_duration)]
    ttl: Duration,
    /// What people see of it
    #[arg(long, value_name = "TEXT", default_value = "")]
    description: String,
    /// What it is for: signing, authentication
    #[arg(long, value_name = "USAGE,...", value_delimiter = ',', default_value = "signing,authentication", value_parser = parse_usage)]
    usages: Vec<String>,
    /// Groups that whoever has it is in, beside system:bootstrappers
    #[arg(long = "groups", value_name = "GROUP,...", value_delimiter = ',', value_parser = parse_group)]
    extra_groups: Vec<String>,
    /// Print the whole line that makes a machine a node
    #[arg(long)]
    print_join_command: bool,
    #[command(flatten)]
    access: access::Flags,
}

#[derive(clap::Args)]
struct ListFlags {
    #[command(flatten)]
    access: access::Flags,
}

#[derive(clap::Args)]
struct DeleteFlags {
    /// Tokens, or their first parts
    #[arg(value_name = "TOKEN|ID", required = true, value_parser = parse_id)]
    ids: Vec<String>,
    #[command(flatten)]
    access: access::Flags,
}

fn parse_token(text: &str) -> Result<BootstrapToken, String> {
    BootstrapToken::parse(text)
        .ok_or_else(|| "expected six and sixteen small letters and digits: ID.SECRET".to_owned())
}

fn parse_usage(text: &str) -> Result<String, String> {
    match text {
        "signing" | "authentication" => Ok(text.to_owned()),
        other => Err(format!("{other:?} is not one: choose signing, authentication or both")),
    }
}

fn parse_group(text: &str) -> Result<String, String> {
    let begins = "expected a group that begins with system:bootstrappers: and goes on in small letters, digits, : and -";
    if bootstrap::is_group(text) { Ok(text.to_owned()) } else { Err(begins.to_owned()) }
}

/// What stands behind the id is not looked at.
fn parse_id(text: &str) -> Result<String, String> {
    let id = text.split('.').next().unwrap_or_default();
    let is_id = BootstrapToken::is_id(id) && (id == text || JoinToken::parse(text).is_ok());
    is_id.then(|| id.to_owned()).ok_or_else(|| "expected six small letters and digits".to_owned())
}

pub(crate) fn run(flags: &Flags) -> Result<()> {
    let access = match &flags.command {
        Command::Create(flags) => flags.access.load()?,
        Command::List(flags) => flags.access.load()?,
        Command::Delete(flags) => flags.access.load()?,
    };
    let ca_pem = String::from_utf8_lossy(&access.config.ca_pem).into_owned();
    access::block_on(async |tasks| {
        let client = Client::new(access::connect(&access.config, tasks)?, "xebec-token");
        match &flags.command {
            Command::Create(flags) => create(&client, flags, &ca_pem).await,
            Command::List(_) => list(&client).await,
            Command::Delete(flags) => delete(&client, &flags.ids).await,
        }
    })
}

async fn create(client: &Client, flags: &CreateFlags, ca_pem: &str) -> Result<()> {
    let server = match flags.print_join_command {
        true => Some(server(client).await?),
        false => None,
    };
    let World { clock, random } = World::system();
    let new = NewToken {
        token: flags.token.clone(),
        ttl: Some(flags.ttl).filter(|it| !it.is_zero()),
        description: flags.description.clone(),
        usages: flags.usages.clone(),
        groups: flags.extra_groups.clone(),
    };
    let pin = Some(pki::pin(ca_pem).context("reading the authority in the kubeconfig")?);
    let bootstrap = joining::create_token(client, &new, clock.now(), &random).await?;
    let token = JoinToken { bootstrap, pin }.render();
    match server {
        Some(server) => say(&format!("xebec join {token}@{server}")),
        None => say(&token),
    }
    Ok(())
}

/// Where machines join, as the cluster says it.
async fn server(client: &Client) -> Result<Place> {
    let info = match client.api::<ConfigMap>().get("kube-public", "cluster-info").await {
        Ok(info) => info,
        Err(err) if err.is_not_found() => bail!(
            "this cluster takes no nodes, since other machines do not reach it: start it with `xebec up --bind-address IP`"
        ),
        Err(err) => return Err(err).context("reading where machines join"),
    };
    let text = info.data.as_ref().and_then(|it| it.get("kubeconfig"));
    let line = text.and_then(|it| it.lines().find_map(|it| it.trim().strip_prefix("server: ")));
    let url = line.context("kube-public/cluster-info names no server")?;
    Place::of_url(url.trim_matches('"')).map_err(anyhow::Error::msg)
}

async fn list(client: &Client) -> Result<()> {
    let options = ListOptions {
        field_selector: Some("type=bootstrap.kubernetes.io/token".to_owned()),
        ..ListOptions::default()
    };
    let listed = client.api::<Secret>().list("kube-system", options).await;
    let listed = listed.context("listing the tokens")?;
    let now = World::system().clock.now();
    let mut rows = vec![
        ["TOKEN", "TTL", "EXPIRES", "USAGES", "DESCRIPTION", "EXTRA GROUPS"].map(str::to_owned),
    ];
    for stored in listed.items {
        let secret: Arc<Secret> = stored.shared().context("decoding")?;
        rows.extend(row(&secret, now));
    }
    align(&rows).iter().for_each(|it| say(it));
    Ok(())
}

fn row(secret: &Secret, now: Timestamp) -> Option<[String; 6]> {
    let empty = BTreeMap::new();
    let data = secret.data.as_ref().unwrap_or(&empty);
    let field = |key: &str| -> String {
        data.get(key).map(|it| String::from_utf8_lossy(&it.0).into_owned()).unwrap_or_default()
    };
    let name = secret.metadata.name.as_deref()?.strip_prefix("bootstrap-token-")?;
    let or_none = |it: String| if it.is_empty() { "<none>".to_owned() } else { it };
    let expires = field("expiration");
    let ttl = match expires.parse::<Timestamp>() {
        _ if expires.is_empty() => "<forever>".to_owned(),
        Ok(end) if end > now => left(end.duration_since(now).as_secs()),
        _ => "<expired>".to_owned(),
    };
    let is_for = |usage: &str| field(&format!("usage-bootstrap-{usage}")) == "true";
    let usages: Vec<&str> =
        ["authentication", "signing"].into_iter().filter(|it| is_for(it)).collect();
    let expires = if expires.is_empty() { "<never>".to_owned() } else { expires };
    let (usages, description) = (or_none(usages.join(",")), or_none(field("description")));
    Some([name.to_owned(), ttl, expires, usages, description, or_none(field("auth-extra-groups"))])
}

/// As kubeadm shows it: `23h`
fn left(seconds: i64) -> String {
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

async fn delete(client: &Client, ids: &[String]) -> Result<()> {
    for id in ids {
        let name = format!("bootstrap-token-{id}");
        let deleted =
            client.api::<Secret>().delete("kube-system", &name, DeleteOptions::default()).await;
        match deleted {
            Err(err) if ApiError::is_not_found(&err) => bail!("there is no token {id}"),
            deleted => drop(deleted.with_context(|| format!("deleting the token {id}"))?),
        }
        say(&format!("token {id} deleted"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::api::core::v1::Secret;
    use serde_json::json;

    use super::{parse_id, row};

    #[test]
    fn a_list_shows_what_tokens_are_for_and_not_their_secrets() {
        let secret: Secret = serde_json::from_value(json!({
            "metadata": {"name": "bootstrap-token-abcdef"},
            // abcdef, 2026-01-02T00:00:00Z, true
            "data": {
                "token-id": "YWJjZGVm", "token-secret": "MDEyMzQ1Njc4OWFiY2RlZg==",
                "expiration": "MjAyNi0wMS0wMlQwMDowMDowMFo=", "usage-bootstrap-signing": "dHJ1ZQ==",
            },
        }))
        .unwrap();
        let check = |now: &str, ttl: &str| {
            let now: Timestamp = now.parse().unwrap();
            let expected = ["abcdef", ttl, "2026-01-02T00:00:00Z", "signing", "<none>", "<none>"];
            assert_eq!(row(&secret, now).unwrap(), expected.map(str::to_owned));
        };
        check("2026-01-01T00:30:00Z", "23h");
        check("2026-01-03T00:00:00Z", "<expired>");
    }

    #[test]
    fn a_token_is_deleted_by_its_id_or_by_the_whole_of_it() {
        assert_eq!(parse_id("abcdef").as_deref(), Ok("abcdef"));
        assert_eq!(parse_id("abcdef.0123456789abcdef").as_deref(), Ok("abcdef"));
        assert!(parse_id("abcde").is_err() && parse_id("abcdef.x").is_err());
    }
}
