// What would become of an object if it were deleted now: a section in the details of
// namespaces, nodes and definitions; of custom resources, for whose page Headlamp takes no
// sections, a button beside their name that says it, and opens the rest.
import {
  DefaultDetailsViewSection,
  DetailsViewSectionProps,
  registerDetailsViewHeaderAction,
  registerDetailsViewSectionsProcessor,
} from '@kinvolk/headlamp-plugin/lib';
import { clusterRequest } from '@kinvolk/headlamp-plugin/lib/ApiProxy';
import { SectionBox, StatusLabel } from '@kinvolk/headlamp-plugin/lib/CommonComponents';
import { Box, Button, CircularProgress, Dialog, DialogContent, Typography } from '@mui/material';
import { useEffect, useState } from 'react';
import { Answer, Api, ask, holding, printable, Subject, verdictOf } from './deletion';

type KubeObject = DetailsViewSectionProps['resource'];

const timeout = 30_000; // ms; the API server gives a webhook 30 s at most

function subjectOf(o: KubeObject): Subject {
  const { metadata, apiVersion } = o.jsonData;
  return {
    apiVersion,
    kind: o.jsonData.kind,
    plural: o._class().apiName,
    name: metadata.name,
    namespace: metadata.namespace,
    uid: metadata.uid,
    created: metadata.creationTimestamp,
    deletionTimestamp: metadata.deletionTimestamp,
    finalizers: [...(metadata.finalizers ?? []), ...(o.jsonData.spec?.finalizers ?? [])].filter(
      f => typeof f === 'string'
    ),
  };
}

function apiOf(o: KubeObject): Api {
  return {
    mayDelete: async () => (await o.getAuthorization('delete')).status.allowed === true,
    send: (path, init) =>
      clusterRequest(path, {
        ...init,
        headers: { 'Content-Type': 'application/json' },
        cluster: o.cluster,
        isJSON: false, // the response itself, with its headers
        autoLogoutOnAuthError: false,
        timeout,
      }),
  };
}

const title = 'If deleted now';

interface Known {
  answer: Answer | null; // null while the request runs
  again: () => void;
}

/** useKnown sends the requests once for each displayed object, and on demand. */
function useKnown(resource: KubeObject): Known {
  const [answer, setAnswer] = useState<Answer | null>(null);
  const [turn, setTurn] = useState(0);
  const subject = subjectOf(resource);
  useEffect(() => {
    let shown = true;
    const api = apiOf(resource);
    setAnswer(null);
    ask(api, subject)
      .catch((err): Answer => ({ kind: 'not-asked', message: printable(String(err)) }))
      .then(a => shown && setAnswer(a));
    return () => {
      shown = false;
    };
    // Other changes of the object send no new request.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [subject.uid, subject.deletionTimestamp, turn]);
  return { answer, again: () => setTurn(turn + 1) };
}

function Lines({ lines }: { lines: string[] }) {
  return (
    <Box component="ul" sx={{ pl: 3, my: 1 }}>
      {lines.map((text, i) => (
        <li key={i}>{text}</li>
      ))}
    </Box>
  );
}

/** Told shows the answer. */
function Told({ resource, known }: { resource: KubeObject; known: Known }) {
  const { answer, again } = known;
  return answer ? (
    <Answered resource={resource} answer={answer} again={again} />
  ) : (
    <CircularProgress size={20} aria-label="Waiting for the API server" />
  );
}

function Answered(props: { resource: KubeObject; answer: Answer; again: () => void }) {
  const { resource, answer, again } = props;
  const subject = subjectOf(resource);
  const verdict = verdictOf(answer, subject);
  const conditions = subject.deletionTimestamp
    ? holding(resource.jsonData.kind, resource.jsonData.status?.conditions)
    : [];
  const lines = [
    ...conditions.map(c => printable(`${c.type}: ${c.message ?? ''}`)),
    ...(answer.kind === 'told' ? answer.lines.map(l => l.text) : []),
  ];
  return (
    <Box py={1} sx={{ overflowWrap: 'anywhere' }}>
      <StatusLabel status={verdict.status}>{verdict.title}</StatusLabel>
      {verdict.detail && <Typography sx={{ mt: 1 }}>{verdict.detail}</Typography>}
      {subject.deletionTimestamp && (
        <Typography sx={{ mt: 1 }}>
          {`Terminating since ${subject.deletionTimestamp}. `}
          {subject.finalizers.length > 0
            ? `It waits for the removal of ${printable(subject.finalizers.join(', '))}.`
            : 'It has no finalizers.'}
        </Typography>
      )}
      {lines.length > 0 && <Lines lines={lines} />}
      {answer.kind !== 'terminating' && (
        <Button size="small" variant="outlined" sx={{ mt: 1 }} onClick={again}>
          Ask again
        </Button>
      )}
    </Box>
  );
}

/** IfDeletedNow is the section. */
export function IfDeletedNow({ resource }: { resource: KubeObject }) {
  return (
    <SectionBox title={title}>
      <Told resource={resource} known={useKnown(resource)} />
    </SectionBox>
  );
}

const kinds = ['v1/Namespace', 'v1/Node', 'apiextensions.k8s.io/v1/CustomResourceDefinition'];

/** withSection puts the section after the metadata, where Headlamp's own begin. */
export function withSection(resource: KubeObject | null, sections: any[]): any[] {
  const o = resource?.jsonData;
  if (!o || !kinds.includes(`${o.apiVersion}/${o.kind}`)) {
    return sections;
  }
  const at = sections.findIndex(s => s?.id === DefaultDetailsViewSection.METADATA) + 1;
  const section = { id: 'termguard', section: <IfDeletedNow resource={resource} /> };
  return [...sections.slice(0, at), section, ...sections.slice(at)];
}

/**
 * OfCustomResource is the button of a custom resource. Other kinds get none: an extension API server may not
 * support dry runs.
 */
export function OfCustomResource({ item }: { item?: KubeObject | null }) {
  return item && (item._class() as any).customResourceDefinition ? <Opens resource={item} /> : null;
}

function Opens({ resource }: { resource: KubeObject }) {
  const known = useKnown(resource);
  const [open, setOpen] = useState(false);
  if (!known.answer) {
    return <CircularProgress size={20} aria-label="Waiting for the API server" />;
  }
  const { status, title: says } = verdictOf(known.answer, subjectOf(resource));
  return (
    <>
      <Button
        size="small"
        variant="outlined"
        color={status || 'inherit'}
        onClick={() => setOpen(true)}
      >
        {`${title}: ${says}`}
      </Button>
      <Dialog open={open} onClose={() => setOpen(false)} maxWidth="md" fullWidth aria-label={title}>
        <DialogContent>
          <SectionBox title={title}>
            <Told resource={resource} known={known} />
          </SectionBox>
        </DialogContent>
      </Dialog>
    </>
  );
}

registerDetailsViewSectionsProcessor({ id: 'termguard', processor: withSection });
registerDetailsViewHeaderAction(OfCustomResource);
