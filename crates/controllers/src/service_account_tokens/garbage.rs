//! What this controller makes of objects that nobody has validated: see `crate::garbage`.

use api::core::secret::SecretView;
use api::core::{Secret, ServiceAccount};

use super::plan::{Account, missing, plan, refers, without};
use crate::garbage::Draw;

pub(crate) fn plan_any(draw: &mut Draw<'_>) -> usize {
    let secret = draw.object::<Secret>();
    let account = Account { name: draw.name().to_owned(), uid: draw.name().to_owned() };
    let view = SecretView::from(&*secret);
    if let Some(token) = &view.token {
        plan(token, draw.flag().then_some(&account), "CA");
    }
    missing(&secret, "CA");
    let account = draw.object::<ServiceAccount>();
    let name = draw.name();
    assert!(!refers(&without(&account, name), name));
    1
}
