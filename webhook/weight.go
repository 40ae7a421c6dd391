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

// Bytes of running reviews, reserved before allocation and until the policies are done. Small reviews, nearly
// all, have their own share. TestHeldByBodies measures the worst bodies.
const (
	smallBody   = 64 << 10
	smallBodies = 16 << 20
	largeBodies = 64 << 20
	// maxDecoded bounds one decoded review, else only the metadata is read. Two objects of 1.5 MB, etcd's
	// maximum, need less, unless crafted.
	maxDecoded = 16 << 20
	// unreservedBytes of each body are read without a reservation; connections are bounded, too.
	unreservedBytes = 8 << 10
)

type memoryLimits struct{ small, large *semaphore.Weighted }

func newWeights() memoryLimits {
	return memoryLimits{semaphore.NewWeighted(smallBodies), semaphore.NewWeighted(largeBodies)}
}

// All holders must drop it.
type reservation struct {
	pool    *semaphore.Weighted
	weight  int64
	holders atomic.Int32
}

func (w memoryLimits) newReservation(contentLength int64) *reservation {
	l := &reservation{pool: w.large}
	if contentLength >= 0 && contentLength <= smallBody {
		l.pool = w.small
	}
	l.holders.Store(1)
	return l
}

func (l *reservation) add(n int64, until time.Time) error {
	if n <= 0 {
		return nil
	}
	if !l.pool.TryAcquire(n) {
		ctx, cancel := context.WithDeadline(context.Background(), until)
		defer cancel()
		if l.pool.Acquire(ctx, n) != nil {
			return errNoMemory
		}
	}
	l.weight += n
	return nil
}

func (l *reservation) retain() { l.holders.Add(1) }

func (l *reservation) release() {
	if l.holders.Add(-1) == 0 {
		l.pool.Release(l.weight)
	}
}

var errNoMemory = errors.New("other reviews use all memory for reviews")

// read reserves after the first bytes: a client that announces a body and sends nothing blocks no others.
func (l *reservation) read(body io.Reader, contentLength int64, until time.Time) ([]byte, error) {
	const more = bytes.MinRead // or the end takes another round
	size := int64(unreservedBytes)
	if contentLength >= 0 {
		size = min(size, contentLength+more)
	}
	text := make([]byte, 0, size)
	for {
		if len(text) == cap(text) {
			size := int64(cap(text)) * 4
			if size > smallBody && contentLength > 0 {
				size = max(contentLength+more, int64(cap(text))+more)
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

// decodedWeight is an upper bound for JSON, which may be invalid.
func decodedWeight(text []byte) int64 {
	// A map has a header and room for 8 members (internal/runtime/maps: 48 and 264 bytes, in their size
	// classes). A value is an interface, in a slice or map of up to twice the size.
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
