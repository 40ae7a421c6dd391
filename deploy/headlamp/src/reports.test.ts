import { Api, Subject } from './deletion';
import { reportsOn } from './reports';

// As termguard writes them: webhook/serve, TestReport.
const ofCluster =
  '{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"ClusterPolicyReport","metadata":{"labels":{"app.kubernetes.io/managed-by":"termguard"},"name":"termguard"},"results":[{"source":"termguard","policy":"orphaned-finalizer","rule":"namespaces","category":"Deletion","severity":"high","result":"fail","message":"If deleted now, it would hang: Finalizer that nobody removes","resources":[{"apiVersion":"v1","kind":"Namespace","name":"shop"}]}],"summary":{"error":0,"fail":1,"pass":0,"skip":0,"warn":0}}';
const ofNamespace =
  '{"apiVersion":"openreports.io/v1alpha1","kind":"Report","metadata":{"labels":{"app.kubernetes.io/managed-by":"termguard"},"name":"termguard"},"results":[{"source":"termguard","policy":"orphaned-finalizer","rule":"custom","category":"Deletion","severity":"high","result":"fail","message":"If deleted now, 3 of kialis.kiali.io would hang: Finalizer that nobody removes","properties":{"count":"3","resource":"kialis.kiali.io"}}],"scope":{"apiVersion":"v1","kind":"Namespace","name":"shop"},"source":"termguard","summary":{"error":0,"fail":1,"pass":0,"skip":0,"warn":0}}';

const now = Date.parse('2026-11-25T12:00:00Z');
const hangs = 'If deleted now, it would hang: Finalizer that nobody removes [orphaned-finalizer]';
const three =
  'If deleted now, 3 of kialis.kiali.io would hang: Finalizer that nobody removes [orphaned-finalizer]';

const wg = '/apis/wgpolicyk8s.io/v1alpha2';
const openreports = '/apis/openreports.io/v1alpha1';
const clusterPolicyReport = `${wg}/clusterpolicyreports/termguard`;
const policyReport = `${wg}/namespaces/shop/policyreports/termguard`;
const clusterReport = `${openreports}/clusterreports/termguard`;
const report = `${openreports}/namespaces/shop/reports/termguard`;

const subject = (kind: string, plural: string, apiVersion: string, more = {}): Subject => ({
  apiVersion,
  kind,
  plural,
  name: 'shop',
  uid: 'u1',
  created: '2026-11-01T00:00:00Z',
  finalizers: [],
  ...more,
});
const shop = subject('Namespace', 'namespaces', 'v1');
const kiali = subject('Kiali', 'kialis', 'kiali.io/v1alpha1', { name: 'k', namespace: 'shop' });

/** stored is a report as the API server hands it out. */
function stored(text: string, change: (report: any) => void = () => {}): any {
  const o = JSON.parse(text);
  o.metadata.creationTimestamp = '2026-11-24T00:00:00Z';
  o.metadata.managedFields = [
    { manager: 'termguard', operation: 'Apply', time: '2026-11-25T11:00:00Z' },
    { manager: 'kubectl-label', operation: 'Update', time: '2026-11-25T11:59:00Z' },
  ];
  change(o);
  return o;
}

/** cluster has what stands at some paths, and answers 404 or another status elsewhere. */
function cluster(at: Record<string, any>, status = 404): { api: Api; sent: string[] } {
  const sent: string[] = [];
  const api: Api = {
    mayDelete: async () => false,
    send: async (path, init) => {
      expect(init).toEqual({ method: 'GET' });
      sent.push(path);
      if (!(path in at)) {
        throw Object.assign(new Error('no'), { status });
      }
      return new Response(typeof at[path] === 'string' ? at[path] : JSON.stringify(at[path]));
    },
  };
  return { api, sent };
}

const lines = async (s: Subject, at: Record<string, any>) =>
  (await reportsOn(cluster(at).api, s, now)).flatMap(r => r.lines);

describe('reportsOn', () => {
  const written = { asOf: '2026-11-25T11:00:00Z', stale: false };
  const renamed = (text: string, apiVersion: string, kind: string) =>
    stored(text, o => Object.assign(o, { apiVersion, kind }));
  const cases: Record<string, { s: Subject; at: Record<string, any>; want: any[] }> = {
    'of the cluster, in the group of Kyverno': {
      s: shop,
      at: { [clusterPolicyReport]: stored(ofCluster) },
      want: [{ from: 'ClusterPolicyReport termguard', ...written, lines: [hangs] }],
    },
    'of a namespace, in the group of Kyverno': {
      s: shop,
      at: {
        [policyReport]: renamed(ofNamespace, 'wgpolicyk8s.io/v1alpha2', 'PolicyReport'),
      },
      want: [{ from: 'PolicyReport termguard in shop', ...written, lines: [three] }],
    },
    'of the cluster, in the group of OpenReports': {
      s: shop,
      at: {
        [clusterReport]: renamed(ofCluster, 'openreports.io/v1alpha1', 'ClusterReport'),
      },
      want: [{ from: 'ClusterReport termguard', ...written, lines: [hangs] }],
    },
    'of a namespace, in the group of OpenReports': {
      s: shop,
      at: { [report]: stored(ofNamespace) },
      want: [{ from: 'Report termguard in shop', ...written, lines: [three] }],
    },
    'both are about a namespace': {
      s: shop,
      at: { [clusterPolicyReport]: stored(ofCluster), [report]: stored(ofNamespace) },
      want: [
        { from: 'ClusterPolicyReport termguard', ...written, lines: [hangs] },
        { from: 'Report termguard in shop', ...written, lines: [three] },
      ],
    },
    'a custom resource is among those of its kind in its namespace': {
      s: kiali,
      at: { [report]: stored(ofNamespace), [clusterPolicyReport]: stored(ofCluster) },
      want: [{ from: 'Report termguard in shop', ...written, lines: [three] }],
    },
    'more than a day old': {
      s: shop,
      at: {
        [clusterPolicyReport]: stored(
          ofCluster,
          o => (o.metadata.managedFields[0].time = '2026-11-24T11:59:59Z')
        ),
      },
      want: [
        {
          from: 'ClusterPolicyReport termguard',
          asOf: '2026-11-24T11:59:59Z',
          stale: true,
          lines: [hangs],
        },
      ],
    },
    'a day old': {
      s: shop,
      at: {
        [clusterPolicyReport]: stored(
          ofCluster,
          o => (o.metadata.managedFields[0].time = '2026-11-24T12:00:00Z')
        ),
      },
      want: [
        {
          from: 'ClusterPolicyReport termguard',
          asOf: '2026-11-24T12:00:00Z',
          stale: false,
          lines: [hangs],
        },
      ],
    },
    'who wrote it is not known: it is as old as it is': {
      s: shop,
      at: {
        [clusterPolicyReport]: stored(ofCluster, o => delete o.metadata.managedFields),
      },
      want: [
        {
          from: 'ClusterPolicyReport termguard',
          asOf: '2026-11-24T00:00:00Z',
          stale: true,
          lines: [hangs],
        },
      ],
    },
  };
  for (const [name, { s, at, want }] of Object.entries(cases)) {
    it(name, async () => expect(await reportsOn(cluster(at).api, s, now)).toEqual(want));
  }

  it('reads one report of each group for a place, and where there is none, says nothing', async () => {
    for (const status of [404, 403, 401, 500]) {
      const { api, sent } = cluster({}, status);
      expect(await reportsOn(api, shop, now)).toEqual([]);
      expect(sent).toEqual([clusterPolicyReport, policyReport, clusterReport, report]);
    }
    const { api, sent } = cluster({});
    await reportsOn(api, kiali, now);
    await reportsOn(api, subject('Node', 'nodes', 'v1'), now);
    expect(sent).toEqual([policyReport, report, clusterPolicyReport, clusterReport]);
  });

  it('leaves out what others found, and what does not fail', async () => {
    const kyverno = stored(ofCluster, o => (o.results[0].source = 'kyverno'));
    expect(await lines(shop, { [clusterPolicyReport]: kyverno })).toEqual([]);
    const nobody = stored(ofCluster, o => delete o.results[0].source);
    expect(await lines(shop, { [clusterPolicyReport]: nobody })).toEqual([]);
    const passes = stored(ofCluster, o => (o.results[0].result = 'pass'));
    expect(await lines(shop, { [clusterPolicyReport]: passes })).toEqual([]);
    const beside = stored(ofCluster, o =>
      o.results.push({ ...o.results[0], source: 'kyverno', message: 'label missing' })
    );
    expect(await lines(shop, { [clusterPolicyReport]: beside })).toEqual([hangs]);
  });

  it('leaves out what is about something else', async () => {
    const at = { [clusterPolicyReport]: stored(ofCluster), [report]: stored(ofNamespace) };
    expect(await lines({ ...shop, name: 'other' }, at)).toEqual([]);
    expect(await lines(subject('Node', 'nodes', 'v1'), at)).toEqual([]);
    expect(await lines({ ...shop, apiVersion: 'x.io/v1' }, at)).toEqual([]);
    expect(await lines({ ...kiali, apiVersion: 'other.io/v1' }, at)).toEqual([]);
    expect(await lines({ ...kiali, namespace: 'other' }, at)).toEqual([]);
  });

  it('leaves out what is about an object of that name that was there before', async () => {
    const at = { [clusterPolicyReport]: stored(ofCluster) };
    expect(await lines({ ...shop, created: '2026-11-25T11:00:01Z' }, at)).toEqual([]);
    expect(await lines({ ...shop, created: '2026-11-25T11:00:00Z' }, at)).toEqual([hangs]);
  });

  it('has bounds, and shows nothing that turns the direction of writing', async () => {
    const many = stored(ofNamespace, o => {
      o.results = Array(60).fill({ ...o.results[0], message: 'a\u202eb' + 'x'.repeat(1000) });
    });
    const got = await lines(shop, { [report]: many });
    expect(got).toHaveLength(51);
    expect(got[0]).toMatch(/^a\uFFFDbx*$/);
    expect(got[0]).toHaveLength(300);
    expect(got[50]).toBe('and 10 more');
  });

  it('takes what is no report for none', async () => {
    for (const text of [
      '',
      'null',
      '[]',
      '{}',
      '{"metadata":{},"results":[]}',
      '{"metadata":{"creationTimestamp":"soon"},"results":[{"source":"termguard","result":"fail"}]}',
      '{"metadata":{"managedFields":7},"results":{}}',
      '{"metadata":{},"source":"termguard","results":[null,7,"x",{"resources":[null]}]}',
    ]) {
      expect(await lines(shop, { [clusterPolicyReport]: text, [report]: text })).toEqual([]);
    }
    const broken = { [clusterPolicyReport]: '<html>', [report]: stored(ofNamespace) };
    expect(await lines(shop, broken)).toEqual([three]);
  });
});
