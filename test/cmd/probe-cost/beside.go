package main

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

type count struct{ atomic.Int64 }

// hash keeps all processors busy, in blocks of 64 KiB.
func hash(done *count) (stop func()) {
	var stopped atomic.Bool
	var all sync.WaitGroup
	for range runtime.NumCPU() {
		all.Go(func() {
			block := make([]byte, 1<<16)
			for !stopped.Load() {
				sha256.Sum256(block)
				done.Add(1)
			}
		})
	}
	return func() { stopped.Store(true); all.Wait() }
}

// store writes blocks of 4 KiB sequentially.
func store(file *os.File, done *count) (stop func()) {
	var stopped atomic.Bool
	var all sync.WaitGroup
	all.Go(func() {
		block := make([]byte, 4<<10)
		_, _ = rand.Read(block) // never fails
		for i := int64(0); !stopped.Load(); i++ {
			if _, err := file.WriteAt(block, i%1024*int64(len(block))); err != nil || file.Sync() != nil {
				return // the table shows no work then
			}
			done.Add(1)
		}
	})
	return func() { stopped.Store(true); all.Wait() }
}

// others takes turns: other load on the machine affects both.
func (c *cost) others(work string) error {
	file, err := os.Create(filepath.Join(work, "blocks"))
	if err != nil {
		return err
	}
	defer file.Close()
	fmt.Println("| work of others | without the probe | while it looks | share, median | of each pair |")
	fmt.Println("|---|---:|---:|---:|---|")
	for _, load := range []struct {
		name  string
		start func(*count) func()
	}{
		{"SHA-256 of 64 KiB on all processors", hash},
		{"write 4 KiB and fsync", func(done *count) func() { return store(file, done) }},
	} {
		var without, with, shares []float64
		for pair := range 2 * c.pairs {
			probed := pair%2 == pair/2%2 // without, with, with, without: neither is always first
			rate, err := c.rate(load.start, probed)
			if err != nil {
				return err
			}
			if probed {
				with = append(with, rate)
			} else {
				without = append(without, rate)
			}
		}
		for i := range with {
			shares = append(shares, 100*with[i]/without[i])
		}
		slices.Sort(shares)
		fmt.Printf("| %s | %.0f a second | %.0f | %.1f %% | %.1f to %.1f %% |\n", load.name, median(without), median(with), median(shares), shares[0], shares[len(shares)-1])
	}
	return nil
}

func (c *cost) rate(start func(*count) func(), probed bool) (float64, error) {
	if probed {
		p, err := c.start(8_000, time.Millisecond)
		if err != nil {
			return 0, err
		}
		defer p.stop()
	}
	var done count
	stop := start(&done)
	defer stop()
	time.Sleep(time.Second) // warm-up
	before, began := done.Load(), time.Now()
	time.Sleep(c.slice)
	return float64(done.Load()-before) / time.Since(began).Seconds(), nil
}

func median(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
