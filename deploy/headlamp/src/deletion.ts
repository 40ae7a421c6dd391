// The outcome of deleting an object now, by a dry run of the API server with the rights of the user. This file
// does not depend on the page.

/** Subject is the displayed object. */
export interface Subject {
  apiVersion: string;
  kind: string;
  /** Plural name of the resource, as in the path of its API. */
  plural: string;
  name: string;
  namespace?: string;
  uid: string;
  created?: string;
  deletionTimestamp?: string;
  finalizers: string[];
}

/** Api sends requests to a cluster, with the rights of the user. */
export interface Api {
  /** mayDelete resolves to whether the user may delete the object. */
  mayDelete(): Promise<boolean>;
  /** send resolves to a response of the API server, and rejects with an error that has its status. */
  send(path: string, init: { method: string; body?: string }): Promise<Response>;
}

/** Says is how bad a line is: what it says of the deletion. */
export type Says = 'hangs' | 'refused' | 'may' | 'unknown' | 'note' | 'next';

/** Line is one warning of the API server. */
export interface Line {
  text: string;
  says: Says;
}

/**
 * Guard is whether termguard's webhook is registered in the cluster: 'hidden' where the
 * person may not see that.
 */
export type Guard = 'registered' | 'absent' | 'hidden';

/** Answer is the result, by its source. */
export type Answer =
  | { kind: 'terminating' }
  | { kind: 'not-allowed' }
  | { kind: 'refused'; message: string }
  | { kind: 'not-asked'; message: string }
  | { kind: 'told'; lines: Line[]; guard: Guard };

const maxHeader = 64 * 1024; // the API server keeps 4 KiB, proxies add theirs
const maxLines = 50;

/** pathOf is the path of an object in the API. */
export function pathOf(s: Pick<Subject, 'apiVersion' | 'plural' | 'name' | 'namespace'>): string {
  const root = s.apiVersion.includes('/') ? '/apis/' : '/api/';
  const within = s.namespace ? `/namespaces/${encodeURIComponent(s.namespace)}` : '';
  return `${root}${s.apiVersion}${within}/${encodeURIComponent(s.plural)}/${encodeURIComponent(
    s.name
  )}`;
}

/** targetOf is the object as kubectl termguard takes it. */
export function targetOf(s: Subject): string {
  const group = s.apiVersion.includes('/') ? '.' + s.apiVersion.split('/')[0] : '';
  return `${s.plural}${group}/${s.name}${s.namespace ? ` -n ${s.namespace}` : ''}`;
}

/**
 * dryRun is a deletion that nothing is stored of. The body counts, and the query where
 * something on the way drops the body of a DELETE: neither alone must ever be left. The uid
 * keeps it from being about another object of that name.
 */
export function dryRun(s: Subject): { path: string; init: { method: string; body: string } } {
  return {
    path: pathOf(s) + '?dryRun=All&propagationPolicy=Background',
    init: {
      method: 'DELETE',
      body: JSON.stringify({
        apiVersion: 'v1',
        kind: 'DeleteOptions',
        dryRun: ['All'],
        propagationPolicy: 'Background',
        preconditions: { uid: s.uid },
      }),
    },
  };
}

/**
 * printable is text of others on one line: what has no shape, or turns the direction of
 * writing, becomes U+FFFD.
 */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, '\uFFFD');
}

/**
 * warningsIn reads the values of Warning headers (RFC 7234, 5.5), which a browser joins by
 * commas: code, agent and text in quotes, and perhaps a date. The API server writes UTF-8,
 * of which a browser hands out the bytes. What is no warning is left out.
 */
export function warningsIn(header: string | null): string[] {
  const texts: string[] = [];
  const one = /\s*\d{3} [^\s",]+ "((?:[^"\\]|\\.)*)"(?: "[^"]*")?\s*(?:,|$)/y;
  const all = utf8((header ?? '').slice(0, maxHeader));
  for (let at = 0; at < all.length && texts.length < maxLines; ) {
    one.lastIndex = at;
    const found = one.exec(all);
    if (found) {
      texts.push(printable(found[1].replace(/\\(.)/g, '$1')));
      at = one.lastIndex;
    } else {
      const next = all.indexOf(',', at);
      at = next < 0 ? all.length : next + 1;
    }
  }
  return texts;
}

function utf8(bytes: string): string {
  if (!/^[\0-\xFF]*$/.test(bytes)) {
    return bytes; // decoded already
  }
  return new TextDecoder().decode(Uint8Array.from(bytes, c => c.charCodeAt(0)));
}

const ours = 'termguard: ';

/** lineOf classifies a warning: termguard's by its beginning. */
export function lineOf(text: string): Line {
  const starts = (...prefixes: string[]) => prefixes.some(p => text.startsWith(ours + p));
  let says: Says = 'note';
  if (starts('will hang: ')) {
    says = 'hangs';
  } else if (starts('will be refused: ', 'forbidden: ')) {
    says = 'refused';
  } else if (starts('may hang: ', 'may be refused: ', 'may be forbidden: ')) {
    says = 'may';
  } else if (starts('not checked')) {
    says = 'unknown';
  } else if (starts('run "kubectl termguard check ')) {
    says = 'next';
  }
  return { text, says };
}

/** spoke reports whether any of the lines is termguard's. */
export function spoke(lines: Line[]): boolean {
  return lines.some(l => l.text.startsWith(ours));
}

// A webhook denies with any status; one that fails closed and does not answer refuses, too.
const refusals = /denied the request|failed calling webhook/;

/**
 * ask returns the outcome of deleting the object. It sends no dry run for a Terminating object, which the
 * webhook does not review again, or if the user may not delete it.
 */
export async function ask(api: Api, s: Subject): Promise<Answer> {
  if (s.deletionTimestamp) {
    return { kind: 'terminating' };
  }
  if (!(await api.mayDelete())) {
    return { kind: 'not-allowed' };
  }
  const { path, init } = dryRun(s);
  let lines: Line[];
  try {
    const response = await api.send(path, init);
    lines = warningsIn(response.headers.get('Warning')).map(lineOf);
  } catch (err) {
    const { status = 0 } = err as { status?: number };
    const message = printable(err instanceof Error ? err.message : String(err));
    // What a webhook that takes no dry runs answers is no word about the deletion; nor is
    // that the object is gone or was made anew, or that no server had time.
    const refused = [400, 403, 422].includes(status) || refusals.test(message);
    if (refused && !message.includes('does not support dry run')) {
      return { kind: 'refused', message };
    }
    return { kind: 'not-asked', message };
  }
  return { kind: 'told', lines, guard: spoke(lines) ? 'registered' : await guardOf(api) };
}

/** guardOf looks whether the API server asks termguard about deletions at all. */
async function guardOf(api: Api): Promise<Guard> {
  const all = '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations';
  try {
    await api.send(all + '/termguard', { method: 'GET' });
    return 'registered';
  } catch (err) {
    return (err as { status?: number }).status === 404 ? 'absent' : 'hidden';
  }
}

/** Verdict summarizes all lines, in the words of docs/concepts.md, with the color. */
export interface Verdict {
  status: 'success' | 'warning' | 'error' | '';
  title: string;
  detail?: string;
}

const noPromise = 'This does not promise that the deletion completes.';

/** verdictOf describes an answer. */
export function verdictOf(answer: Answer, s: Subject): Verdict {
  const sure = `Run "kubectl termguard check ${targetOf(s)}".`;
  switch (answer.kind) {
    case 'terminating':
      return {
        status: 'error',
        title: 'It is Terminating.',
        detail: `For the reason: ${sure}`,
      };
    case 'not-allowed':
      return {
        status: '',
        title: 'Not checked: you may not delete it.',
        detail: `The API server evaluates a deletion only for users who may delete. For an answer with your own rights: ${sure}`,
      };
    case 'refused':
      return { status: 'error', title: 'The API server refuses it:', detail: answer.message };
    case 'not-asked':
      return {
        status: '',
        title: 'Not known: the request failed.',
        detail: answer.message,
      };
  }
  const says = (what: Says) => answer.lines.some(l => l.says === what);
  if (says('refused')) {
    return { status: 'error', title: 'It would be refused.' };
  }
  if (says('hangs')) {
    return { status: 'error', title: 'It would hang.' };
  }
  if (says('may')) {
    return { status: 'warning', title: 'It may hang.' };
  }
  if (says('unknown')) {
    return { status: '', title: 'Not known: termguard could not check it in full.' };
  }
  if (spoke(answer.lines)) {
    return { status: 'success', title: 'termguard found no blocker.' };
  }
  switch (answer.guard) {
    case 'registered':
      return {
        status: '',
        title: 'No warning.',
        detail: `termguard is registered in this cluster, and did not warn. If it does not answer in time, the API server continues silently: ${noPromise} ${sure}`,
      };
    case 'absent':
      return {
        status: '',
        title: 'termguard is not registered.',
        detail: `This cluster has no webhook of that name, and no other warned. ${noPromise} ${sure}`,
      };
    default:
      return {
        status: '',
        title: 'No warning.',
        detail: `You may not see whether termguard is registered in this cluster. ${noPromise} ${sure}`,
      };
  }
}

/** Condition is one of an object's status. */
export interface Condition {
  type: string;
  status: string;
  message?: string;
}

/** holding returns the conditions that explain why an object is still Terminating. */
export function holding(kind: string, conditions: Condition[] | undefined): Condition[] {
  const telling =
    kind === 'Namespace'
      ? /^Namespace(Deletion.*|ContentRemaining|FinalizersRemaining)$/
      : /^Terminating$/;
  return (Array.isArray(conditions) ? conditions : []).filter(
    c => telling.test(c.type) && c.status === 'True'
  );
}
