//! What every cluster starts with: the first namespaces, the RBAC objects, the priority classes of
//! the system, since when tokens in Secrets are tracked, the objects of flow control, who serves
//! which API, the ranges and addresses of Services, and the Service that points to this server.
//! Written directly, before anybody is let in. What a start leaves undone, by a crash between two
//! transactions, the next one does.

use api::rbac::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};

use crate::kinds::{
    api_service, plan_addresses, plan_flow_control, plan_namespaces, plan_token_tracking,
};
use crate::kubernetes_service::{self, Servers};
use crate::pipeline::Core;
use crate::plan::Plan;

/// How often to look again when another server over the same store writes the same objects.
const TRIES_MAX: usize = 5;

pub(crate) async fn run(core: &Core) -> Result<(), kvstore::Error> {
    for _ in 0..TRIES_MAX {
        let plan = plan(core);
        if plan.is_empty() || plan.apply(core).await? {
            return Ok(());
        }
        tracing::info!("another server is writing the first objects");
        let _ = core.cache.wait_current().await;
    }
    Ok(())
}

fn plan(core: &Core) -> Plan {
    let mut plan = Plan::default();
    plan_namespaces(core, &mut plan);
    let rbac = authz::bootstrap::objects(&core.config.gates);
    for it in rbac.cluster_roles {
        plan.reconcile::<ClusterRole>(core, it);
    }
    for it in rbac.cluster_role_bindings {
        plan.reconcile::<ClusterRoleBinding>(core, it);
    }
    for it in rbac.roles {
        plan.reconcile::<Role>(core, it);
    }
    for it in rbac.role_bindings {
        plan.reconcile::<RoleBinding>(core, it);
    }
    for it in api::scheduling::priority_class::of_system() {
        plan.ensure(core, it, |_, _| None);
    }
    plan_token_tracking(core, &mut plan);
    plan_flow_control(core, &mut plan);
    api_service::plan_at_start(core, &mut plan);
    let service = kubernetes_service::service(core);
    plan_addresses(core, &service, &mut plan);
    plan.ensure(core, service, |_, _| None);
    if !core.config.is_shared() {
        kubernetes_service::plan_endpoints(core, &Servers::one(core.config.advertise), &mut plan);
    }
    plan
}
