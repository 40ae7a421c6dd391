package source

import "testing"

func TestExcludeSeparator(t *testing.T) {
	cases := map[string]struct {
		reason, pattern string
		separator       rune
		file            string
		want            bool
	}{
		"Windows":      {"Written as the shell there writes it.", `dir\file.yaml`, '\\', "dir/file.yaml", true},
		"WindowsDeep":  {"A separator roots the pattern.", `dir\file.yaml`, '\\', "a/dir/file.yaml", false},
		"WindowsMixed": {"Both are taken there.", `a/b\**\*.yaml`, '\\', "a/b/c/d.yaml", true},
		"WindowsSlash": {"The configuration is shared with other machines.", "dir/file.yaml", '\\', "dir/file.yaml", true},
		"POSIX":        {"It separates nothing.", `dir\file.yaml`, '/', "dir/file.yaml", false},
		"POSIXEscape":  {"It is that of .gitignore.", `dir/\*.yaml`, '/', "dir/*.yaml", true},
		"POSIXStar":    {"The star is escaped.", `dir/\*.yaml`, '/', "dir/a.yaml", false},
		"POSIXItself":  {"A name may have one.", `dir\\file.yaml`, '/', `dir\file.yaml`, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			e, err := newExclude([]string{tc.pattern}, tc.separator)
			if err != nil {
				t.Fatal(err)
			}
			if got := e.Matches(tc.file, false); got != tc.want {
				t.Errorf("%s\n%q, separator %c, file %q: want %t, got %t", tc.reason, tc.pattern, tc.separator, tc.file, tc.want, got)
			}
		})
	}
}
