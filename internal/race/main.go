package race

import (
	"flag"
	"os"
	"testing"
)

// Main is TestMain with a stress test, which starts more goroutines than the others: under the race detector,
// -short runs only that (make test).
func Main(m *testing.M, stress string) {
	flag.Parse()
	if Detector && testing.Short() && flag.Lookup("test.run").Value.String() == "" {
		if err := flag.Set("test.run", "^"+stress+"$"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
