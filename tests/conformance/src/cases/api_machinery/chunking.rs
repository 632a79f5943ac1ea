//! Lists in pages: one moment for all pages, and what happens when that moment is forgotten.

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};

use crate::cases::{Case, SLOW, case};
use crate::client::Collection;
use crate::expect::{items, name, refused, same};
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-api-machinery] Servers with support for API chunking should return chunks of results for list calls [Conformance]",
        pages
    ),
    Case {
        limit: SLOW,
        ..case!(
            "[sig-api-machinery] Servers with support for API chunking should support continue listing from the last key if the original version has been compacted away, though the list is inconsistent [Slow] [Conformance]",
            forgotten
        )
    },
];

const TOTAL: usize = 60;

async fn fill(scope: &Scope) -> Result<Collection<'_>> {
    let templates = scope.own("v1", "podtemplates");
    let container = json!({ "name": "main", "image": "example.com/image:1" });
    for number in 0..TOTAL {
        let object = json!({
            "metadata": { "name": format!("template-{number:04}") },
            "template": { "spec": { "containers": [container] } },
        });
        templates.create(&object).await?;
    }
    Ok(templates)
}

/// What is left is told exactly, and the names go on where the page before ended.
fn check_page(page: &Value, before: usize, limit: usize) -> Result<usize> {
    let items = items(page)?;
    ensure!(items.len() <= limit, "expected at most {limit} items, saw {}", items.len());
    for (at, item) in items.iter().enumerate() {
        same("the next name", name(item)?, &format!("template-{:04}", before + at))?;
    }
    let metadata = &page["metadata"];
    let found = before + items.len();
    if token(page).is_empty() {
        same("remainingItemCount of the last page", &metadata["remainingItemCount"], &Value::Null)?;
    } else {
        same("items on a page that is not the last", items.len(), limit)?;
        same("remainingItemCount", &metadata["remainingItemCount"], &json!(TOTAL - found))?;
    }
    Ok(found)
}

fn token(page: &Value) -> &str {
    page["metadata"]["continue"].as_str().unwrap_or_default()
}

/// All pages behind a token; returns how many items there are then.
async fn rest(
    templates: &Collection<'_>,
    first: &Value,
    mut found: usize,
    limit: usize,
) -> Result<usize> {
    let mut page = first.clone();
    while !token(&page).is_empty() {
        let size = limit.to_string();
        let next = templates.list(&[("limit", &*size), ("continue", token(&page))]).await?;
        let version = |it: &Value| it["metadata"]["resourceVersion"].clone();
        same("resourceVersion of all pages", version(&next), version(&page))?;
        found = check_page(&next, found, limit)?;
        page = next;
    }
    Ok(found)
}

async fn pages(scope: &Scope) -> Result<()> {
    let templates = fill(scope).await?;
    for limit in [17, 20, TOTAL] {
        let first = templates.list(&[("limit", &*limit.to_string())]).await?;
        let found = check_page(&first, 0, limit)?;
        // What comes later is on no page.
        let late = json!({ "metadata": { "name": "template-9999" }, "template": { "spec": { "containers": [
            { "name": "main", "image": "example.com/image:1" }] } } });
        templates.create(&late).await?;
        same("items on all pages", rest(&templates, &first, found, limit).await?, TOTAL)?;
        templates.delete("template-9999").await?;
    }
    let whole = templates.list(&[("limit", "1000")]).await?;
    same("items on one page", check_page(&whole, 0, 1_000)?, TOTAL)
}

async fn forgotten(scope: &Scope) -> Result<()> {
    let templates = fill(scope).await?;
    let limit = 6;
    let first = templates.list(&[("limit", "6")]).await?;
    let found = check_page(&first, 0, limit)?;
    let second = [("limit", "6"), ("continue", token(&first))];
    let refusal = scope
        .until("the first page's moment is forgotten", async || {
            // Stores compact when there is something new.
            templates
                .patch(
                    "template-0059",
                    crate::client::Patch::Merge,
                    &json!({
                        "metadata": { "annotations": { "written": "again" } },
                    }),
                )
                .await?;
            refused("the second page", templates.list(&second).await, 410)
        })
        .await?;
    same("reason", refusal.reason(), "Expired")?;
    let Some(fresh) = refusal.status["metadata"]["continue"].as_str().filter(|it| !it.is_empty())
    else {
        bail!("expected a token to go on with, saw {}", refusal.status);
    };
    let next = templates.list(&[("limit", "6"), ("continue", fresh)]).await?;
    let version = |it: &Value| it["metadata"]["resourceVersion"].clone();
    ensure!(version(&next) != version(&first), "expected another moment, saw {}", version(&next));
    let found = check_page(&next, found, limit)?;
    same("items on all pages", rest(&templates, &next, found, limit).await?, TOTAL)
}
