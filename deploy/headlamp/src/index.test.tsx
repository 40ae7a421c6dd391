import { act, fireEvent, render, screen } from '@testing-library/react';

const headlamp = vi.hoisted(() => ({
  processors: [] as any[],
  actions: [] as any[],
  sent: [] as any[],
}));

// What Headlamp gives a plugin, as far as this one takes it.
vi.mock('@kinvolk/headlamp-plugin/lib', () => ({
  DefaultDetailsViewSection: { METADATA: 'METADATA' },
  registerDetailsViewSectionsProcessor: (p: any) => headlamp.processors.push(p),
  registerDetailsViewHeaderAction: (a: any) => headlamp.actions.push(a),
}));
vi.mock('@kinvolk/headlamp-plugin/lib/ApiProxy', () => ({
  clusterRequest: async (path: string, params: any) => {
    headlamp.sent.push({ path, ...params });
    if (params.method === 'GET') {
      throw Object.assign(new Error('no'), { status: 403 });
    }
    return new Response('{}', {
      headers: { Warning: '299 - "termguard: will hang: <img src=x onerror=alert(1)> waits [p]"' },
    });
  },
}));
vi.mock('@kinvolk/headlamp-plugin/lib/CommonComponents', () => ({
  SectionBox: ({ title, children }: any) => <section aria-label={title}>{children}</section>,
  StatusLabel: ({ children }: any) => <strong>{children}</strong>,
}));

import { IfDeletedNow, OfCustomResource, withSection } from './index';

function object(kind: string, apiVersion: string, apiName: string, more: any = {}): any {
  return {
    jsonData: {
      kind,
      apiVersion,
      metadata: { name: 'shop', uid: 'u1', ...more.metadata },
      ...more,
    },
    cluster: 'lab',
    _class: () => ({ apiName, customResourceDefinition: more.definition }),
    getAuthorization: async () => ({ status: { allowed: more.allowed ?? true } }),
  };
}

const namespace = (more?: any) => object('Namespace', 'v1', 'namespaces', more);

beforeEach(() => {
  headlamp.sent.length = 0;
});

const deletes = () => headlamp.sent.filter(s => s.method !== 'GET');

it('is registered for the pages of Headlamp, and for those of custom resources', () => {
  expect(headlamp.processors).toEqual([{ id: 'termguard', processor: withSection }]);
  expect(headlamp.actions).toEqual([OfCustomResource]);
});

it('stands after the metadata, in pages of three kinds', () => {
  const sections = [{ id: 'MAIN_HEADER' }, { id: 'METADATA' }, { id: 'EVENTS' }];
  const ids = (o: any) => withSection(o, sections).map(s => s.id);
  const with_ = ['MAIN_HEADER', 'METADATA', 'termguard', 'EVENTS'];
  expect(ids(namespace())).toEqual(with_);
  expect(ids(object('Node', 'v1', 'nodes'))).toEqual(with_);
  expect(ids(object('CustomResourceDefinition', 'apiextensions.k8s.io/v1', 'x'))).toEqual(with_);
  expect(ids(object('Pod', 'v1', 'pods'))).toEqual(['MAIN_HEADER', 'METADATA', 'EVENTS']);
  expect(ids(object('Node', 'other.io/v1', 'nodes'))).not.toContain('termguard');
  expect(ids(null)).not.toContain('termguard');
});

it('asks once, by a dry run in the cluster of the object, and shows text as text', async () => {
  const { rerender, container } = render(<IfDeletedNow resource={namespace()} />);
  expect(await screen.findByText('It would hang.')).toBeTruthy();
  expect(
    screen.getByText('termguard: will hang: <img src=x onerror=alert(1)> waits [p]')
  ).toBeTruthy();
  expect(container.querySelector('img')).toBeNull();
  rerender(<IfDeletedNow resource={namespace()} />); // as each change that is watched does
  expect(deletes()).toHaveLength(1);
  expect(deletes()[0]).toMatchObject({ method: 'DELETE', cluster: 'lab', isJSON: false });
  expect(deletes()[0].path).toContain('/api/v1/namespaces/shop?dryRun=All');
  expect(headlamp.sent).toHaveLength(1);
  await act(async () => {
    fireEvent.click(screen.getByText('Ask again'));
  });
  expect(deletes()).toHaveLength(2);
});

it('asks nothing without the right to delete, and says so', async () => {
  render(<IfDeletedNow resource={namespace({ allowed: false })} />);
  expect(await screen.findByText('Not checked: you may not delete it.')).toBeTruthy();
  expect(deletes()).toHaveLength(0);
});

it('shows why an object is still Terminating, without a request', async () => {
  render(
    <IfDeletedNow
      resource={namespace({
        metadata: { deletionTimestamp: '2026-11-01T00:00:00Z' },
        spec: { finalizers: ['kubernetes'] },
        status: {
          conditions: [
            { type: 'NamespaceContentRemaining', status: 'True', message: 'kialis.kiali.io has 1' },
          ],
        },
      })}
    />
  );
  expect(await screen.findByText('It is Terminating.')).toBeTruthy();
  expect(
    screen.getByText(/Terminating since 2026-11-01.*waits for the removal of kubernetes/)
  ).toBeTruthy();
  expect(screen.getByText('NamespaceContentRemaining: kialis.kiali.io has 1')).toBeTruthy();
  expect(deletes()).toHaveLength(0);
});

it('shows the verdict of a custom resource on a button, and opens the rest', async () => {
  const kiali = object('Kiali', 'kiali.io/v1alpha1', 'kialis', {
    definition: {},
    metadata: { namespace: 'shop', name: 'k' },
  });
  render(<OfCustomResource item={kiali} />);
  fireEvent.click(await screen.findByText('If deleted now: It would hang.'));
  expect(screen.getByText(/will hang: .* waits \[p\]/)).toBeTruthy();
  expect(deletes()).toHaveLength(1);
  expect(deletes()[0].path).toContain(
    '/apis/kiali.io/v1alpha1/namespaces/shop/kialis/k?dryRun=All'
  );
});

it('asks nothing of what no definition serves', () => {
  expect(render(<OfCustomResource item={namespace()} />).container.innerHTML).toBe('');
  expect(render(<OfCustomResource item={null} />).container.innerHTML).toBe('');
  expect(headlamp.sent).toHaveLength(0);
});
