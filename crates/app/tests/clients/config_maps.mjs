// A client of @kubernetes/client-node: `node config_maps.mjs PACKAGE KUBECONFIG`, where PACKAGE is
// its index.js. Says `all good`, or what was not.
import { argv } from 'node:process';
import { pathToFileURL } from 'node:url';
import assert from 'node:assert';
import { PassThrough } from 'node:stream';

const k8s = await import(pathToFileURL(argv[2]));
const config = new k8s.KubeConfig();
config.loadFromFile(argv[3]);
const core = config.makeApiClient(k8s.CoreV1Api);
const namespace = 'default';

// What is awaited comes with an event; half a minute is the bound.
const until = async (isRight) => {
  for (let tries = 0; tries < 1500 && !isRight(); tries++) await new Promise((it) => setTimeout(it, 20));
  assert.ok(isRight(), JSON.stringify({ events, cached }));
};

// A watch and an informer, from before there is anything to see.
const events = [];
const watch = new k8s.Watch(config);
const before = await core.listNamespacedConfigMap({ namespace, limit: 1 });
const watching = await watch.watch(`/api/v1/namespaces/${namespace}/configmaps`,
  { labelSelector: 'from=node', resourceVersion: before.metadata.resourceVersion },
  (kind, object) => events.push(`${kind} ${object.data?.a}`), () => {});
const cached = [];
const informer = k8s.makeInformer(config, `/api/v1/namespaces/${namespace}/configmaps`,
  () => core.listNamespacedConfigMap({ namespace, labelSelector: 'from=node' }), 'from=node');
for (const kind of ['add', 'update', 'delete']) {
  informer.on(kind, (object) => cached.push(`${kind} ${object.data?.a}`));
}
await informer.start();

const made = await core.createNamespacedConfigMap({ namespace, body: {
  metadata: { name: 'node', labels: { from: 'node' } }, data: { a: '1' } } });
assert.ok(made.metadata.uid && made.metadata.creationTimestamp instanceof Date);
const list = await core.listNamespacedConfigMap({ namespace, labelSelector: 'from=node' });
assert.deepEqual(list.items.map((it) => it.data.a), ['1']);

const patched = await core.patchNamespacedConfigMap({ name: 'node', namespace, body: { data: { a: '2' } } },
  k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.MergePatch));
assert.equal(patched.data.a, '2');
const listed = await core.patchNamespacedConfigMap({ name: 'node', namespace,
  body: [{ op: 'replace', path: '/data/a', value: '3' }] },
  k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.JsonPatch));
assert.equal(listed.data.a, '3');
const applied = await core.patchNamespacedConfigMap({ name: 'node', namespace, fieldManager: 'node', force: true,
  body: { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'node' }, data: { a: '4' } } },
  k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.ServerSideApply));
assert.equal(applied.data.a, '4');

await assert.rejects(core.readNamespacedConfigMap({ name: 'absent', namespace }), (it) => it.code === 404);
await assert.rejects(core.createNamespacedConfigMap({ namespace, body: { metadata: { name: 'node' } } }),
  (it) => it.code === 409 && JSON.parse(it.body).reason === 'AlreadyExists');

await until(() => cached.at(-1) === 'update 4' && events.at(-1) === 'MODIFIED 4');
assert.equal(informer.get('node', namespace).data.a, '4');
await core.deleteNamespacedConfigMap({ name: 'node', namespace });
await until(() => cached.at(-1) === 'delete 4' && events.at(-1).startsWith('DELETED'));
assert.deepEqual(events.slice(0, -1), ['ADDED 1', 'MODIFIED 2', 'MODIFIED 3', 'MODIFIED 4']);
await informer.stop();
watching.abort();

// A pod that no node has: a command in it is refused, and the client hears why.
await core.createNamespacedPod({ namespace, body: { metadata: { name: 'pod' }, spec: {
  schedulerName: 'nobody', containers: [{ name: 'main', image: 'example.com/image:1' }] } } });
const exec = new k8s.Exec(config);
await assert.rejects(exec.exec(namespace, 'pod', 'main', ['true'], new PassThrough(), new PassThrough(), null, false),
  (it) => { console.log(`exec: ${it?.message ?? it}`); return /400|500/.test(it?.message ?? String(it)); });
console.log('all good');
