package policies

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// When a policy is set aside, and for how long. What is late in one namespace alone
// never counts: its tenant could have made it so.
const (
	lateInARow  = 5
	latePlaces  = 2
	lateAgain   = 2 // in a row, of a policy that was set aside before
	shortestOff = time.Minute
	longestOff  = time.Hour
	// minLate is the time that a policy must have had to itself: a shorter share of
	// what was left says nothing about it.
	minLate = 10 * time.Millisecond
)

// Breaker sets policies aside that run out of their time again and again, so that the
// others are asked, and can refuse. After a while they are tried again. It is safe for
// concurrent use; nil sets nothing aside.
type Breaker struct {
	may     map[string]bool // policies that may be set aside
	now     func() time.Time
	changed func(id string, until time.Time)

	mu sync.Mutex
	of map[string]*circuit // by policy; only those that were late
}

// circuit is what a Breaker knows of one policy.
type circuit struct {
	late   int             // times in a row
	places map[string]bool // where; at most latePlaces
	off    time.Duration   // how long it was set aside last
	until  time.Time       // it is set aside
}

// NewBreaker sets aside only policies among ids. changed, which may be nil, is told of
// each that is, and until when, and with the zero time of each that was in time again.
func NewBreaker(ids []string, now func() time.Time, changed func(id string, until time.Time)) *Breaker {
	b := &Breaker{may: map[string]bool{}, now: now, changed: changed, of: map[string]*circuit{}}
	for _, id := range ids {
		b.may[id] = true
	}
	return b
}

// Aside names the policies that are set aside, and until when.
func (b *Breaker) Aside() (names []string) {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(b.of)) {
		if c := b.of[id]; b.now().Before(c.until) {
			names = append(names, fmt.Sprintf("%s: took too long, and is tried again at %s", id, c.until.UTC().Format(time.TimeOnly)))
		}
	}
	return names
}

// rests tells whether a policy is set aside.
func (b *Breaker) rests(id string) bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.of[id]
	return c != nil && b.now().Before(c.until)
}

// inTime notes that policies answered in time.
func (b *Breaker) inTime(who ...Policy) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.of) == 0 {
		return
	}
	for _, p := range who {
		if c := b.of[p.ID]; c != nil {
			delete(b.of, p.ID)
			if !c.until.IsZero() && b.changed != nil {
				b.changed(p.ID, time.Time{})
			}
		}
	}
}

// late notes that a policy ran out of its time, which it had to itself, on a request
// about a namespace.
func (b *Breaker) late(id, place string) {
	if b == nil || !b.may[id] {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.of[id]
	if c == nil {
		c = &circuit{places: map[string]bool{}}
		b.of[id] = c
	}
	if b.now().Before(c.until) {
		return // a review that began before
	}
	c.late++
	if len(c.places) < latePlaces {
		c.places[place] = true
	}
	enough := lateInARow
	if c.off > 0 {
		enough = lateAgain
	}
	if c.late < enough || len(c.places) < latePlaces {
		return
	}
	c.off = min(max(2*c.off, shortestOff), longestOff)
	c.until, c.late, c.places = b.now().Add(c.off), 0, map[string]bool{}
	if b.changed != nil {
		b.changed(id, c.until)
	}
}
