import {
  Answer,
  Api,
  ask,
  dryRun,
  holding,
  lineOf,
  pathOf,
  Subject,
  targetOf,
  verdictOf,
  warningsIn,
} from './deletion';

const shop: Subject = {
  apiVersion: 'v1',
  kind: 'Namespace',
  plural: 'namespaces',
  name: 'shop',
  uid: 'u1',
  finalizers: [],
};
const kiali: Subject = {
  apiVersion: 'kiali.io/v1alpha1',
  kind: 'Kiali',
  plural: 'kialis',
  name: 'k',
  namespace: 'shop',
  uid: 'u2',
  finalizers: ['kiali.io/finalizer'],
};

/** bytes is a text as a browser hands out what a header holds in UTF-8. */
const bytes = (text: string) => String.fromCharCode(...new TextEncoder().encode(text));
const warn = (...texts: string[]) =>
  texts.map(t => `299 - "${bytes(t).replace(/["\\]/g, '\\$&')}"`).join(', ');

describe('warningsIn', () => {
  const cases: Record<string, { header: string | null; want: string[] }> = {
    'none is none': { header: null, want: [] },
    'several are joined by commas, which a text may hold, too': {
      header: warn('a, "b"', 'c\\d'),
      want: ['a, "b"', 'c\\d'],
    },
    'UTF-8 comes as bytes': { header: warn('cut off… 日本'), want: ['cut off… 日本'] },
    'a date may follow': {
      header: '299 kube "a" "Wed, 21 Oct 2026 07:28:00 GMT", 299 - "b"',
      want: ['a', 'b'],
    },
    'other headers are left out': { header: 'x "y", 299 - "b", 299 - "open', want: ['b'] },
    'nothing turns the direction of writing': {
      header: warn('a\u202eb\u200bc'),
      want: ['a\uFFFDb\uFFFDc'],
    },
    'there is an end': { header: warn(...Array(60).fill('x')), want: Array(50).fill('x') },
  };
  for (const [name, { header, want }] of Object.entries(cases)) {
    it(name, () => expect(warningsIn(header)).toEqual(want));
  }
  it('takes no longer for what fits badly', () => {
    const began = performance.now();
    warningsIn('299 - "' + '\\"'.repeat(32_000));
    warningsIn(','.repeat(64_000));
    warningsIn('299 - '.repeat(11_000));
    expect(performance.now() - began).toBeLessThan(2000);
  });
});

describe('the request', () => {
  it('has the paths and names of Kubernetes', () => {
    expect(pathOf(shop)).toBe('/api/v1/namespaces/shop');
    expect(pathOf(kiali)).toBe('/apis/kiali.io/v1alpha1/namespaces/shop/kialis/k');
    expect(pathOf({ ...shop, name: '../pods' })).toBe('/api/v1/namespaces/..%2Fpods');
    expect(targetOf(shop)).toBe('namespaces/shop');
    expect(targetOf(kiali)).toBe('kialis.kiali.io/k -n shop');
  });
  it('is a dry run by its body and by its query, of this very object', () => {
    const { path, init } = dryRun(shop);
    expect(new URL(path, 'http://x').searchParams.get('dryRun')).toBe('All');
    expect(JSON.parse(init.body)).toMatchObject({ dryRun: ['All'], preconditions: { uid: 'u1' } });
  });
});

/** fake is a cluster: each DELETE that it is sent must be a dry run. */
function fake(options: { may?: boolean; warning?: string; fails?: any; guard?: number }) {
  const sent: string[] = [];
  const api: Api = {
    mayDelete: async () => options.may ?? true,
    send: async (path, init) => {
      sent.push(init.method);
      if (init.method === 'DELETE') {
        expect(path).toContain('?dryRun=All');
        expect(JSON.parse(init.body!).dryRun).toEqual(['All']);
        if (options.fails) {
          throw options.fails;
        }
        return new Response('{}', { headers: options.warning ? { Warning: options.warning } : {} });
      }
      if (options.guard !== 200) {
        throw Object.assign(new Error('no'), { status: options.guard });
      }
      return new Response('{}');
    },
  };
  return { api, sent };
}

const failed = (status: number, message: string) => Object.assign(new Error(message), { status });

describe('ask', () => {
  it('sends nothing about a Terminating object, or one that the user may not delete', async () => {
    const { api, sent } = fake({ may: false });
    expect(await ask(api, { ...shop, deletionTimestamp: '2026-11-01T00:00:00Z' })).toEqual({
      kind: 'terminating',
    });
    expect(await ask(api, shop)).toEqual({ kind: 'not-allowed' });
    expect(sent).toEqual([]);
  });

  const cases: Record<
    string,
    { given: Parameters<typeof fake>[0]; want: Partial<Answer>; title: string }
  > = {
    hangs: {
      given: { warning: warn('termguard: may hang: a [p]', 'termguard: will hang: b [q]') },
      want: { kind: 'told', guard: 'registered' },
      title: 'It would hang.',
    },
    'may hang': {
      given: { warning: warn('termguard: may hang: a [p]') },
      want: { kind: 'told' },
      title: 'It may hang.',
    },
    'refused by a rule': {
      given: {
        warning: warn('termguard: forbidden: not on Fridays [f]', 'termguard: will hang: b [q]'),
      },
      want: { kind: 'told' },
      title: 'It would be refused.',
    },
    'not checked': {
      given: { warning: warn('termguard: not checked in full: unseen: secrets') },
      want: { kind: 'told' },
      title: 'Not known: termguard could not check it in full.',
    },
    'good to know': {
      given: { warning: warn('termguard: pods take an hour [slow]') },
      want: { kind: 'told' },
      title: 'termguard found no blocker.',
    },
    'no guard: silence is no promise': {
      given: { guard: 404 },
      want: { kind: 'told', lines: [], guard: 'absent' },
      title: 'termguard is not registered.',
    },
    'what others warn of is no word of a guard': {
      given: { warning: warn('v1beta1 is deprecated; it will hang: x'), guard: 404 },
      want: { kind: 'told', guard: 'absent' },
      title: 'termguard is not registered.',
    },
    'a guard that says nothing promises nothing': {
      given: { guard: 200 },
      want: { kind: 'told', guard: 'registered' },
      title: 'No warning.',
    },
    'a guard that may not be seen': {
      given: { guard: 403 },
      want: { kind: 'told', guard: 'hidden' },
      title: 'No warning.',
    },
    'a webhook refuses': {
      given: {
        fails: failed(
          403,
          'Forbidden - admission webhook "delete.termguard.dev" denied the request: no'
        ),
      },
      want: { kind: 'refused' },
      title: 'The API server refuses it:',
    },
    'a webhook refuses with a status of its own': {
      given: { fails: failed(500, 'admission webhook "x" denied the request: no') },
      want: { kind: 'refused' },
      title: 'The API server refuses it:',
    },
    'a webhook that must answer does not': {
      given: { fails: failed(500, 'failed calling webhook "x": EOF') },
      want: { kind: 'refused' },
      title: 'The API server refuses it:',
    },
    'a webhook takes no dry runs: that is no refusal of the deletion': {
      given: { fails: failed(400, 'admission webhook "x" does not support dry run') },
      want: { kind: 'not-asked' },
      title: 'Not known: the request failed.',
    },
    'made anew meanwhile': {
      given: { fails: failed(409, 'Conflict - Precondition failed: UID') },
      want: { kind: 'not-asked' },
      title: 'Not known: the request failed.',
    },
    'out of reach': {
      given: { fails: new TypeError('fetch failed') },
      want: { kind: 'not-asked' },
      title: 'Not known: the request failed.',
    },
  };
  for (const [name, { given, want, title }] of Object.entries(cases)) {
    it(name, async () => {
      const answer = await ask(fake(given).api, shop);
      expect(answer).toMatchObject(want);
      const verdict = verdictOf(answer, shop);
      expect(verdict.title).toBe(title);
      if (answer.kind === 'told' && answer.lines.every(l => !l.text.startsWith('termguard: '))) {
        expect(verdict.detail).toContain('does not promise');
        expect(verdict.status).toBe('');
      }
    });
  }
});

it('words of termguard count at the start of a line only', () => {
  expect(lineOf('x termguard: will hang: y').says).toBe('note');
  expect(lineOf('termguard: run "kubectl termguard check namespaces/shop" for evidence').says).toBe(
    'next'
  );
});

it('conditions that hold a namespace are those that are true', () => {
  const conditions = [
    { type: 'NamespaceDeletionDiscoveryFailure', status: 'True', message: 'metrics' },
    { type: 'NamespaceDeletionContentFailure', status: 'False', message: 'All content deleted' },
    { type: 'NamespaceContentRemaining', status: 'True', message: 'pods. has 1' },
    { type: 'Other', status: 'True' },
  ];
  expect(holding('Namespace', conditions).map(c => c.message)).toEqual(['metrics', 'pods. has 1']);
  expect(holding('Node', undefined)).toEqual([]);
});
