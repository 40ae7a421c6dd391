package webhook

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// What reviews under way may hold in memory, in bytes. It is weighed before it
// is allocated, until the policies have answered. Small reviews, which are
// nearly all, have room of their own that large ones cannot take.
// TestHeldByBodies measures what bodies of the worst kinds come to.
const (
	smallBody   = 64 << 10 // up to here a body is small
	smallBodies = 16 << 20
	largeBodies = 64 << 20
	// maxDecoded bounds what one review is decoded to. An object of 1.5 MB, the
	// most that etcd stores, comes to less, twice, unless somebody made it up
	// for the purpose; of more than this, the metadata is read only.
	maxDecoded = 16 << 20
	// unweighed is read of each body before anything is weighed. Connections
	// are bounded, see Server.MaxConnections.
	unweighed = 8 << 10
)

// weights are the room for reviews under way.
type weights struct{ small, large *semaphore.Weighted }

func newWeights() weights {
	return weights{semaphore.NewWeighted(smallBodies), semaphore.NewWeighted(largeBodies)}
}

// load is what one review holds. It is let go when all who hold it have
// dropped it. A nil load weighs nothing.
type load struct {
	in      *semaphore.Weighted
	weight  int64
	holders atomic.Int32
}

// load starts with nothing, for a body of a length that is declared; -1 where
// it is not.
func (w weights) load(declared int64) *load {
	l := &load{in: w.large}
	if declared >= 0 && declared <= smallBody {
		l.in = w.small
	}
	l.holders.Store(1)
	return l
}

// add waits for room for n more bytes; the error is errNoRoom.
func (l *load) add(n int64, until time.Time) error {
	if l == nil || n <= 0 {
		return nil
	}
	if !l.in.TryAcquire(n) {
		ctx, cancel := context.WithDeadline(context.Background(), until)
		defer cancel()
		if l.in.Acquire(ctx, n) != nil {
			return errNoRoom
		}
	}
	l.weight += n
	return nil
}

func (l *load) hold() {
	if l != nil {
		l.holders.Add(1)
	}
}

func (l *load) drop() {
	if l != nil && l.holders.Add(-1) == 0 {
		l.in.Release(l.weight)
	}
}

// errNoRoom is for a review for which there was no room in time.
var errNoRoom = errors.New("other reviews take all the memory that reviews may take")

// read reads a body of a declared length to its end. Room for it is taken when
// the first bytes have come: whoever promises a body and does not send it holds
// nothing up.
func (l *load) read(body io.Reader, declared int64, until time.Time) ([]byte, error) {
	const more = bytes.MinRead // or the end takes another round
	size := int64(unweighed)
	if declared >= 0 {
		size = min(size, declared+more)
	}
	text := make([]byte, 0, size)
	for {
		if len(text) == cap(text) {
			size := int64(cap(text)) * 4
			if size > smallBody && declared > 0 {
				size = max(declared+more, int64(cap(text))+more)
			}
			if err := l.add(size-int64(cap(text)), until); err != nil {
				return nil, err
			}
			text = append(make([]byte, 0, size), text...)
		}
		n, err := body.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		switch {
		case err == io.EOF:
			return text, nil
		case err != nil:
			return nil, err
		}
	}
}

// decodedWeight estimates, from above, the memory that a JSON text takes when
// it is decoded into maps, slices and strings. The text need not be valid.
func decodedWeight(text []byte) int64 {
	// A map has a header and room for 8 members (internal/runtime/maps: 48 and
	// 264 bytes, in their size classes); beyond that it grows with them. A
	// value is an interface in a slice or map that may have grown to twice
	// what it holds, and what it points to.
	const object, array, value = 352, 48, 72
	var n int64
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{':
			n += object + value
		case '[':
			n += array + value
		case ',':
			n += value
		case '"':
			length := stringLength(text[i+1:])
			n += 16 + int64(length)
			i += length + 1
		}
	}
	return n
}

// stringLength is the length of the JSON string that text continues, up to its
// closing quote.
func stringLength(text []byte) int {
	for at := 0; ; {
		quote := bytes.IndexByte(text[at:], '"')
		if quote < 0 {
			return len(text)
		}
		end := at + quote
		escapes := 0
		for escapes < end && text[end-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return end
		}
		at = end + 1
	}
}
