package serve

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/termguard/termguard/internal/background"
	"github.com/termguard/termguard/internal/download"
)

const (
	// firstDownload bounds what the start waits for bundles from elsewhere, all together. A
	// replica without them is worth more than none.
	firstDownload = 5 * time.Second
	// retryDownload is the wait after the first failure. It doubles with each one.
	retryDownload = 2 * time.Second
)

var errNoneYet = errors.New("it is not downloaded yet")

// A follower keeps the newest version of a bundle that is elsewhere.
type follower struct {
	bundle *download.Bundle
	mu     sync.Mutex
	last   policySource // what was fetched last, with the error if it now cannot be
	sum    [sha256.Size]byte
}

func newFollower(bundle *download.Bundle) *follower {
	f := &follower{bundle: bundle}
	f.keep(nil, errNoneYet)
	return f
}

// source is the bundle as rules take it.
func (f *follower) source() policySource {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// fetch asks for a new version.
func (f *follower) fetch(ctx context.Context) error {
	archive, err := f.bundle.Fetch(ctx)
	f.keep(archive, err)
	return err
}

// keep takes a new version, if there is one, or tells that none could be had.
func (f *follower) keep(archive []byte, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last.name, f.last.err = f.bundle.Name(), err
	switch {
	case err != nil:
		f.last.sum = sha256.Sum256([]byte("error " + err.Error()))
	case archive != nil:
		f.last.bundle, f.sum = archive, sha256.Sum256(archive)
		fallthrough
	default:
		f.last.sum = f.sum
	}
}

// follow asks again and again, until ctx ends: each interval, somewhat scattered so that
// replicas do not ask at once; sooner after a failure.
func (f *follower) follow(ctx context.Context, interval time.Duration) {
	pause := min(retryDownload, interval)
	for {
		next := wait.Jitter(interval, 0.2)
		if f.source().err != nil {
			next, pause = pause, min(2*pause, interval)
		} else {
			pause = min(retryDownload, interval)
		}
		if background.Pause(ctx, next) != nil {
			return
		}
		_ = f.fetch(ctx) // it is told by whoever takes the source
	}
}

// fetchAll asks for all bundles for the first time.
func (r *rules) fetchAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, firstDownload)
	defer cancel()
	var asked sync.WaitGroup
	for _, f := range r.followers {
		asked.Go(func() { _ = background.Try(ctx, "bundles", func() error { return f.fetch(ctx) }) })
	}
	asked.Wait()
}

// follow keeps all bundles current, until ctx ends.
func (r *rules) follow(ctx context.Context) {
	var running sync.WaitGroup
	for _, f := range r.followers {
		running.Go(func() {
			background.Keep(ctx, "bundles", func(ctx context.Context) { f.follow(ctx, r.options.BundlePoll) })
		})
	}
	running.Wait()
}
