// What termguard's reports in the cluster say of an object, read as the person who looks.
// Nothing here knows the page that shows it.
import { Api, pathOf, printable, Subject } from './deletion';

/** Reported is what one report says of an object. */
export interface Reported {
  /** Kind and name of the report. */
  from: string;
  /** When termguard wrote it last, in RFC 3339. */
  asOf: string;
  /** Whether that is so long ago that perhaps nobody writes it any more. */
  stale: boolean;
  lines: string[];
}

// The groups that `termguard webhook --survey-reports` takes: at most one report in each
// namespace and one of the cluster, all of the same name.
const groups = [
  {
    apiVersion: 'wgpolicyk8s.io/v1alpha2',
    ofCluster: { plural: 'clusterpolicyreports', kind: 'ClusterPolicyReport' },
    ofNamespace: { plural: 'policyreports', kind: 'PolicyReport' },
  },
  {
    apiVersion: 'openreports.io/v1alpha1',
    ofCluster: { plural: 'clusterreports', kind: 'ClusterReport' },
    ofNamespace: { plural: 'reports', kind: 'Report' },
  },
];
const name = 'termguard';

const day = 24 * 60 * 60 * 1000; // ms
const maxLines = 50; // termguard writes as many of a namespace
const maxLine = 300; // characters; termguard writes messages of 256

/**
 * reportsOn resolves to what reports say of the object: nothing of those that are not there,
 * may not be read, or cannot be made sense of. It does not reject.
 */
export async function reportsOn(api: Api, s: Subject, now = Date.now()): Promise<Reported[]> {
  const places = s.namespace ? [s.namespace] : [undefined, ...(isNamespace(s) ? [s.name] : [])];
  const all = groups.flatMap(({ apiVersion, ofCluster, ofNamespace }) =>
    places.map(namespace => ({ apiVersion, namespace, ...(namespace ? ofNamespace : ofCluster) }))
  );
  const read = all.map(async ({ apiVersion, plural, kind, namespace }) => {
    try {
      const path = pathOf({ apiVersion, plural, name, namespace });
      const report = await (await api.send(path, { method: 'GET' })).json();
      const from = `${kind} ${name}${namespace ? ` in ${namespace}` : ''}`;
      return reportedOf(report, from, namespace, s, now);
    } catch {
      return [];
    }
  });
  return (await Promise.all(read)).flat();
}

function isNamespace(s: Subject): boolean {
  return s.apiVersion === 'v1' && s.kind === 'Namespace';
}

function reportedOf(
  report: any,
  from: string,
  namespace: string | undefined,
  s: Subject,
  now: number
): Reported[] {
  const at = writtenAt(report);
  const lines = (report.results as any[])
    .filter(r => (r?.source ?? report.source) === 'termguard' && r.result === 'fail')
    .filter(r => isAbout(r, namespace, s, at))
    .map(r => [...printable(`${r.message} [${r.policy}]`)].slice(0, maxLine).join(''));
  if (lines.length === 0) {
    return [];
  }
  const more = lines.length - maxLines;
  const shown = more > 0 ? [...lines.slice(0, maxLines), `and ${more} more`] : lines;
  const asOf = new Date(at).toISOString().replace('.000Z', 'Z');
  return [{ from, asOf, stale: now - at > day, lines: shown }];
}

/**
 * writtenAt is when termguard wrote the report last, in ms: results have no time of their
 * own, and the API server keeps that of each who writes.
 */
function writtenAt({ metadata }: any): number {
  const times = (metadata.managedFields ?? [])
    .filter((f: any) => f.manager === 'termguard')
    .map((f: any) => Date.parse(f.time));
  return Math.max(...(times.length > 0 ? times : [Date.parse(metadata.creationTimestamp)]));
}

/**
 * isAbout tells whether a result is about the object. Results name namespaces and
 * definitions; of what else there is they count a resource, in a namespace or in none. By
 * name alone a report may be about an object that was there before this one.
 */
function isAbout(result: any, namespace: string | undefined, s: Subject, at: number): boolean {
  if (Array.isArray(result.resources) && result.resources.length > 0) {
    const created = s.created ? Date.parse(s.created) : 0;
    return (
      created <= at &&
      result.resources.some(
        (o: any) =>
          o?.apiVersion === s.apiVersion &&
          o.kind === s.kind &&
          o.name === s.name &&
          (o.namespace || undefined) === s.namespace
      )
    );
  }
  if (namespace && isNamespace(s)) {
    return true; // of what is in it
  }
  const [group, version] = s.apiVersion.split('/');
  return result.properties?.resource === (version ? `${s.plural}.${group}` : s.plural);
}
