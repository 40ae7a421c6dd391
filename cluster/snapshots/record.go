package snapshots

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/termguard/termguard/cluster"
)

// apiVersion is the version of all lines except objects of the cluster.
const apiVersion = "termguard.dev/v2"

type line struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Now is the time of a Snapshot, the first line.
	Now      *time.Time `json:"now,omitempty"`
	Redacted bool       `json:"redacted,omitempty"`
	// Path is of a request; the objects of a List follow it.
	Path          string `json:"path,omitempty"`
	LabelSelector string `json:"labelSelector,omitempty"`
	FieldSelector string `json:"fieldSelector,omitempty"`
	// MetadataOnly says that a List has only metadata, Last that it is the last page.
	MetadataOnly bool `json:"metadataOnly,omitempty"`
	Last         bool `json:"last,omitempty"`
	*Answer
	// Address is of a backend whose certificate was verified; Why says why it is not trusted, and May as in
	// cluster.Handshake.
	Address string `json:"address,omitempty"`
	Why     string `json:"why,omitempty"`
	May     bool   `json:"may,omitempty"`
}

// Kinds of lines. Without the last one, the snapshot was cut.
const snapshotLine, answerLine, listLine, handshakeLine, endLine = "Snapshot", "Answer", "List", "Distrust", "End"

// Recorder writes the answers of an API server.
type Recorder struct {
	mu     sync.Mutex
	out    io.Writer
	redact *redactor // nil for none
	raw    *os.File  // lines before redaction
	final  io.Writer
	err    error
}

// NewRecorder returns a recorder that writes to out. If it redacts, each name is replaced by one other, and
// anything that may hold names is left out.
func NewRecorder(out io.Writer, now time.Time, redact bool) *Recorder {
	r := &Recorder{out: out}
	if redact { // all names have to be known first
		r.redact, r.final = newRedactor(), out
		if r.raw, r.err = temporary(); r.err == nil {
			r.out = r.raw
		}
	}
	r.write(line{Kind: snapshotLine, Now: &now, Redacted: redact})
	return r
}

// Wrap returns a transport, for rest.Config.Wrap, that also records the answers, in JSON.
func (r *Recorder) Wrap(rt http.RoundTripper) http.RoundTripper { return recording{r, rt} }

// Handshake records the result of verifying the certificate behind an address.
func (r *Recorder) Handshake(address string, t cluster.Handshake) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.write(line{Kind: handshakeLine, Address: address, Why: t.Distrust, May: t.May})
}

// Close writes the end.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.write(line{Kind: endLine})
	if r.raw != nil {
		r.err = errors.Join(r.err, r.redacted())
		_ = r.raw.Close()
		_ = os.Remove(r.raw.Name())
	}
	if r.err != nil {
		return fmt.Errorf("write snapshot: %w", r.err)
	}
	return nil
}

func (r *Recorder) write(value any) {
	if l, is := value.(line); is {
		l.APIVersion = apiVersion
		value = l
	}
	text, err := json.Marshal(value)
	if err == nil && r.err == nil {
		_, err = r.out.Write(append(text, '\n'))
	}
	r.err = errors.Join(r.err, err)
}

func (r *Recorder) redacted() error {
	if _, err := r.raw.Seek(0, io.SeekStart); err != nil {
		return err
	}
	in, of := bufio.NewReaderSize(r.raw, 64<<10), place{}
	r.out = r.final
	for {
		text, err := readLine(in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if l, is, err := lineOf(text); err != nil {
			return err
		} else if is {
			if l.Kind == listLine {
				of, _ = placeOf(l.Path)
			}
			r.redact.line(&l)
			r.write(l)
			continue
		}
		object := &unstructured.Unstructured{}
		if err := json.Unmarshal(text, &object.Object); err != nil {
			return err
		}
		r.redact.object(object, of.GroupResource())
		r.write(object.Object)
	}
}

func lineOf(text []byte) (l line, is bool, err error) {
	if !bytes.HasPrefix(text, []byte(`{"apiVersion":"`+apiVersion+`"`)) {
		return l, false, nil
	}
	return l, true, json.Unmarshal(text, &l)
}

type recording struct {
	*Recorder
	base http.RoundTripper
}

const protobuf = "application/vnd.kubernetes.protobuf"

func (r recording) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet || req.URL.Query().Get("watch") != "" {
		return r.base.RoundTrip(req)
	}
	req = req.Clone(req.Context())
	var accepts []string
	for _, kind := range strings.Split(req.Header.Get("Accept"), ",") {
		if !strings.HasPrefix(kind, protobuf) {
			accepts = append(accepts, kind)
		}
	}
	req.Header.Set("Accept", strings.Join(accepts, ","))
	response, err := r.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	r.record(req, response, body)
	return response, nil
}

func (r recording) record(req *http.Request, response *http.Response, body []byte) {
	query := req.URL.Query()
	l := line{Path: req.URL.Path, LabelSelector: query.Get("labelSelector"), FieldSelector: query.Get("fieldSelector")}
	p, is := placeOf(req.URL.Path)
	r.mu.Lock()
	defer r.mu.Unlock()
	var list unstructured.UnstructuredList
	switch {
	case !is || response.StatusCode != http.StatusOK:
		if !json.Valid(body) {
			body, _ = json.Marshal(string(body))
		}
		l.Kind, l.Answer = answerLine, &Answer{response.Header.Get("Content-Type"), response.StatusCode, body}
		r.write(l)
		return
	case p.name != "":
		var object map[string]any
		if json.Unmarshal(body, &object) != nil {
			return
		}
		list.Items = []unstructured.Unstructured{{Object: object}}
	case json.Unmarshal(body, &list) != nil:
		return
	}
	l.Kind, l.MetadataOnly, l.Last = listLine, metadataOnly(req) || r.redact != nil && p.GroupResource() == configMaps && p.name != cluster.LearnedConfigMap, p.name == "" && list.GetContinue() == ""
	r.write(l)
	for i := range list.Items {
		o := &list.Items[i]
		if kind := builtinKind(p.GroupResource()); kind != "" { // items of lists lack it
			o.SetGroupVersionKind(p.GroupVersion().WithKind(kind))
		} else if o.GetKind() == "" {
			o.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
		}
		trim(o, p.GroupResource())
		if r.redact != nil {
			r.redact.learn("", o.Object)
		}
		r.write(o.Object)
	}
}
