//! One kind: objects made from its schema and from its example, asked of both servers.

use serde_json::Value;
use stdx::Random;

use crate::Result;
use crate::compare::{Answer, compare};
use crate::grow::{Garden, pick};
use crate::live::{self, Pair};
use crate::place::{self, Step};
use crate::requests::{Ask, Live, Verb, Writer};
use crate::seeds::{Act, Seed};
use crate::server::{Resource, Server};
use crate::{Shared, mutate};

/// Of one manifest.
const MUTATIONS: usize = 50;
/// Manifests that are kept to grow others from.
const KEPT_MAX: usize = 100;
const MANIFEST_MAX: usize = 8 << 10;
/// Of all requests, those that create.
const CREATES_PERCENT: usize = 40;

pub(crate) struct Kind {
    pub(crate) name: String,
    pub(crate) example: Value,
    pub(crate) seeds: Vec<Seed>,
    pub(crate) acts: Vec<Act>,
    pub(crate) resource: Resource,
    /// Of its own.
    pub(crate) namespace: String,
    pub(crate) n_requests: usize,
}

pub(crate) async fn run(shared: &Shared, kind: &Kind) -> Result<()> {
    let upstream = Server::connect(&shared.flags.upstream).await?;
    let mut pair = [upstream, Server::connect(&shared.flags.ours).await?];
    if kind.resource.is_namespaced {
        live::create_namespace(&mut pair, &kind.namespace).await?;
    }
    let collection = kind.resource.collection(&kind.namespace);
    let name = kind.example["metadata"]["name"].as_str().unwrap_or_default();
    live::delete(&mut pair, &collection, name).await?;
    let outcome = ask_all(shared, kind, &mut pair).await;
    live::delete(&mut pair, &collection, name).await?;
    if kind.resource.is_namespaced {
        live::delete_namespace(&mut pair, &kind.namespace).await?;
    }
    outcome
}

async fn ask_all(shared: &Shared, kind: &Kind, pair: &mut Pair) -> Result<()> {
    let (version, name) = kind.name.split_once(' ').unwrap_or_default();
    let schema = shared.schemas.of_kind(version, name).ok_or("upstream has no schema of it")?;
    let random = Random::from_seed(shared.flags.seed ^ hash(&kind.name));
    let garden = Garden { schemas: &shared.schemas, random: &random };
    let collection = kind.resource.collection(&kind.namespace);
    let writer =
        Writer { schemas: &shared.schemas, schema, random: &random, collection: &collection };
    let mut asker = Asker { shared, kind, pair, n_asked: 0 };
    let mut manifests = vec![kind.example.clone()];
    asker.ask(&writer.create(&kind.example, None)).await?;
    asker.ask_seeds(&garden, &writer).await?;
    manifests.extend(kind.seeds.iter().map(|it| it.manifest.clone()));
    while asker.n_asked < kind.n_requests * CREATES_PERCENT / 100 {
        let manifest = asker.grow(&garden, &writer, &mut manifests).await?;
        for _ in 0..MUTATIONS {
            if let Some(change) = mutate::one(&garden, &manifest, schema, &[]) {
                asker.ask(&writer.create(&manifest, Some(&change))).await?;
            }
        }
    }
    while asker.n_asked < kind.n_requests {
        // What others may depend on stays as it is in examples.
        let is_grown = kind.resource.is_namespaced && random.below(3) > 0;
        let manifest = if is_grown { pick(&random, &manifests) } else { &kind.example };
        let made = live::create(asker.pair, &collection, manifest).await?;
        let live = match made {
            Some(live) => live,
            None => match live::create(asker.pair, &collection, &kind.example).await? {
                Some(live) => live,
                None => return Err(format!("{}: the example is refused", kind.name).into()),
            },
        };
        let n = asker.n_asked;
        asker.write_all(&garden, &writer, &live).await?;
        if asker.n_asked == n {
            break;
        }
    }
    Ok(())
}

struct Asker<'a> {
    shared: &'a Shared,
    kind: &'a Kind,
    pair: &'a mut Pair,
    n_asked: usize,
}

impl Asker<'_> {
    /// What is known to matter: created, with 50 mutations each, and written to.
    async fn ask_seeds(&mut self, garden: &Garden<'_>, writer: &Writer<'_>) -> Result<()> {
        for seed in &self.kind.seeds {
            self.ask(&writer.create(&seed.manifest, None)).await?;
            for _ in 0..MUTATIONS {
                if let Some(change) = mutate::one(garden, &seed.manifest, writer.schema, &[]) {
                    self.ask(&writer.create(&seed.manifest, Some(&change))).await?;
                }
            }
            let made = live::create(self.pair, writer.collection, &seed.manifest).await?;
            let Some(mut live) = made else { continue };
            if let Some(status) = &seed.status {
                live::give_status(self.pair, writer.collection, &mut live, status).await?;
            }
            self.write_all(garden, writer, &live).await?;
        }
        Ok(())
    }

    /// Another manifest that upstream takes, made from one of those before.
    async fn grow(
        &mut self,
        garden: &Garden<'_>,
        writer: &Writer<'_>,
        manifests: &mut Vec<Value>,
    ) -> Result<Value> {
        for _ in 0..10 {
            let mut manifest = pick(garden.random, manifests).clone();
            for _ in 0..=garden.random.below(3) {
                let addition = garden.addition(&manifest, writer.schema, &[]);
                addition.iter().for_each(|it| place::apply(&mut manifest, it));
            }
            let is_accepted = self.ask(&writer.create(&manifest, None)).await?;
            if is_accepted && manifest.to_string().len() < MANIFEST_MAX {
                if manifests.len() < KEPT_MAX {
                    manifests.push(manifest.clone());
                }
                return Ok(manifest);
            }
        }
        Ok(pick(garden.random, manifests).clone())
    }

    async fn write_all(
        &mut self,
        garden: &Garden<'_>,
        writer: &Writer<'_>,
        live: &Live,
    ) -> Result<()> {
        let name = live.manifest["metadata"]["name"].as_str().unwrap_or_default();
        for act in &self.kind.acts {
            self.ask(&act.ask(writer.collection, name)).await?;
        }
        let status = [Step::Field("status".to_owned())];
        for _ in 0..MUTATIONS {
            let verb = *pick(garden.random, Verb::WRITES);
            let is_status = self.kind.resource.has_status && garden.random.below(3) == 0;
            let mut document = live.manifest.clone();
            let root = if is_status {
                if let Some(schema) = writer.schema["properties"].get("status") {
                    document["status"] = garden.value(schema, "status", 0);
                }
                &status[..]
            } else {
                document.as_object_mut().and_then(|it| it.remove("status"));
                &[][..]
            };
            if let Some(change) = mutate::one(garden, &document, writer.schema, root) {
                let ask = writer.write(verb, live, &document, is_status, &change);
                self.ask(&ask).await?;
            }
        }
        Ok(())
    }

    /// Whether upstream accepts it.
    async fn ask(&mut self, ask: &Ask) -> Result<bool> {
        self.n_asked += 1;
        let [upstream, ours] = &mut *self.pair;
        let [to_upstream, to_us] = &ask.bodies;
        let (method, path, content_type) = (ask.method, &ask.path, ask.content_type);
        let (expected, seen) = tokio::join!(
            upstream.call(method, path, content_type, to_upstream),
            ours.call(method, path, content_type, to_us)
        );
        let mut report = self.shared.report.lock().await;
        let Ok(expected) = expected else {
            report.unanswered();
            return Ok(false);
        };
        let seen = seen.unwrap_or_default();
        if expected.code != seen.code && (is_outdated(&expected) || is_outdated(&seen)) {
            report.outdated();
            return Ok(false);
        }
        let is_accepted = expected.code < 300;
        match compare(&expected, &seen) {
            None => report.alike(&self.kind.name, ask, is_accepted),
            Some(it) => report.different(&self.shared.allowed, &self.kind.name, ask, &it),
        }
        Ok(is_accepted)
    }
}

/// Whether the object was not the one that was read before.
fn is_outdated(answer: &Answer) -> bool {
    let text = answer.body["message"].as_str().unwrap_or_default();
    answer.code == 409 && text.contains("the object has been modified")
}

/// FNV-1a: the same on every machine.
fn hash(text: &str) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, mix)
}
