package snapshots

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/live"
)

const (
	// longestLine bounds one object, in bytes: etcd takes 1.5 MiB (etcd, server/embed/config.go,
	// DefaultMaxRequestBytes), and discovery of 1,000 definitions is smaller.
	longestLine = 64 << 20
	// most bounds a decompressed snapshot, in bytes.
	most = 16 << 30
)

var (
	errOld = errors.New("it was made by an older version of termguard, in a format that is no longer read: make a new one with termguard snapshot")
	errNew = errors.New("it was made by another version of termguard: make a new one with termguard snapshot, or use that version")
	errCut = errors.New("its end is missing: it was cut when it was written or copied")
	errBig = fmt.Errorf("it is larger than %d GiB: make one of fewer namespaces", most>>30)
)

// Open reads a snapshot, or another tool's objects, from a file, an archive or a folder.
func Open(path string) (*Archive, error) {
	a, err := newArchive()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if err := a.load(path); err != nil {
		_ = a.Close()
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return a, nil
}

// World returns the facts of the whole archive.
func (a *Archive) World(ctx context.Context, options cluster.Options) (*cluster.World, error) {
	return live.Collect(ctx, live.Over(a), a.Options(options), nil, metav1.NamespaceAll, slog.New(slog.DiscardHandler))
}

func (a *Archive) load(path string) error {
	if about, err := os.Stat(path); err == nil && about.IsDir() {
		return a.foreign(path, (*dump).folder)
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	in, err := unpacked(file)
	if err != nil {
		return err
	}
	const first = `{"apiVersion":"` + apiVersion + `","kind":"` + snapshotLine + `"`
	if begin, _ := in.Peek(len(first)); string(begin) != first {
		return a.foreign(path, (*dump).archive)
	}
	return a.lines(in)
}

// unpacked reads a file, gzip or not, up to a limit.
func unpacked(file io.Reader) (*bufio.Reader, error) {
	in := bufio.NewReaderSize(file, 64<<10)
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		packed, err := gzip.NewReader(in)
		if err != nil {
			return nil, err
		}
		in = bufio.NewReaderSize(&limited{packed, most, errBig}, 64<<10)
	}
	return in, nil
}

type limited struct {
	io.Reader
	left int64
	err  error
}

func (l *limited) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return n, l.err
	}
	return n, err
}

func (a *Archive) lines(in *bufio.Reader) error {
	var of place
	var whole, ended bool
	for n := 1; ; n++ {
		text, err := readLine(in)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return cmp.Or(cutOff(err), fmt.Errorf("line %d: %w", n, err))
		}
		l, is, err := lineOf(text)
		if err != nil {
			return cmp.Or(cutOff(err), fmt.Errorf("line %d: %w", n, err))
		}
		if !is {
			object := &unstructured.Unstructured{}
			if err := json.Unmarshal(text, &object.Object); err != nil {
				return cmp.Or(cutOff(err), fmt.Errorf("line %d: %w", n, err))
			}
			if of.Resource == "" {
				return fmt.Errorf("line %d: an object before its List", n)
			}
			if err := a.add(of.GroupResource(), object, whole); err != nil {
				return fmt.Errorf("line %d: %w", n, err)
			}
			continue
		}
		request := scope(l.Path, l.LabelSelector, l.FieldSelector)
		switch l.Kind {
		case snapshotLine:
			a.Redacted = l.Redacted
			if l.Now != nil {
				a.now = *l.Now
			}
		case answerLine:
			if l.Answer != nil {
				a.answers[request] = *l.Answer
			}
		case listLine:
			of, _ = placeOf(l.Path)
			whole = !l.MetadataOnly
			delete(a.answers, request)
			if k := a.kind(of.GroupResource()); l.Last {
				k.listed[scope(of.namespace, l.LabelSelector, l.FieldSelector)] = true
			}
		case handshakeLine:
			a.handshakes[l.Address] = cluster.Handshake{OK: l.Why == "", Distrust: l.Why, May: l.May}
		case endLine:
			ended = true
		}
	}
	if !ended {
		return errCut
	}
	return nil
}

func cutOff(err error) error {
	var syntax *json.SyntaxError
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &syntax) && syntax.Error() == "unexpected end of JSON input" {
		return errCut
	}
	return nil
}

func readLine(in *bufio.Reader) (text []byte, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if len(text)+len(part) > longestLine {
			return nil, fmt.Errorf("longer than %d MiB", longestLine>>20)
		}
		text = append(text, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(text) > 0, err == nil:
			return bytes.TrimRight(text, "\r\n"), nil
		default:
			return nil, err
		}
	}
}
