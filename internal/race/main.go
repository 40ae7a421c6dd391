package race

import (
	"flag"
	"os"
	"testing"
)

// Main is the TestMain of a package whose stress test starts more goroutines than its other tests: under the
// race detector, -short runs only that (make test).
func Main(m *testing.M, stress string) {
	flag.Parse()
	if Detector && testing.Short() && flag.Lookup("test.run").Value.String() == "" {
		if err := flag.Set("test.run", "^"+stress+"$"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
