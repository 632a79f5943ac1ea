//! What this controller makes of objects that nobody has validated: see `crate::garbage`.

use api::admissionregistration::ValidatingAdmissionPolicy;
use api::admissionregistration::expressions::typing;

use super::plan::{is_due, resources};
use crate::garbage::Draw;

pub(crate) fn plan_any(draw: &mut Draw<'_>) -> usize {
    let policy = draw.object::<ValidatingAdmissionPolicy>();
    is_due(&policy);
    let n_warnings = policy.spec.as_ref().map_or(0, |it| typing::warnings(it, &[], None).len());
    resources(&policy).len() + n_warnings
}
