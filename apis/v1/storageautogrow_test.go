package v1

import (
	"strings"
	"testing"
)

func TestGrowthRule(t *testing.T) {
	for name, tc := range map[string]struct {
		spec StorageAutogrow
		want GrowthRule
		err  string
	}{
		"Defaults": {spec: StorageAutogrow{To: "10Gi"}, want: GrowthRule{Below: 15, ByPercent: 20, To: 10 << 30}},
		"All": {spec: StorageAutogrow{Below: "90%", By: "2Gi", To: "1Ei"},
			want: GrowthRule{Below: 90, By: 2 << 30, To: 1 << 60}},
		"BelowZero":    {spec: StorageAutogrow{Below: "0%", To: "1Gi"}, err: "below must"},
		"BelowAll":     {spec: StorageAutogrow{Below: "100%", To: "1Gi"}, err: "below must"},
		"BelowNumber":  {spec: StorageAutogrow{Below: "15", To: "1Gi"}, err: "below must"},
		"BelowPadded":  {spec: StorageAutogrow{Below: "015%", To: "1Gi"}, err: "below must"},
		"ByZero":       {spec: StorageAutogrow{By: "0", To: "1Gi"}, err: "by must"},
		"ByTwice":      {spec: StorageAutogrow{By: "200%", To: "1Gi"}, err: "by must"},
		"ByNegative":   {spec: StorageAutogrow{By: "-1Gi", To: "1Gi"}, err: "by must"},
		"NoTo":         {spec: StorageAutogrow{}, err: "to:"},
		"ToText":       {spec: StorageAutogrow{To: "all"}, err: "to:"},
		"ToExtreme":    {spec: StorageAutogrow{To: "1e999999999"}, err: "to:"},
		"ToPercentage": {spec: StorageAutogrow{To: "50%"}, err: "to:"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.spec.Parse()
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.HasPrefix(err.Error(), tc.err)) ||
				got != tc.want {
				t.Errorf("want %+v and the error %q, got %+v and %v", tc.want, tc.err, got, err)
			}
		})
	}
}

func TestNextSize(t *testing.T) {
	const gi, mi = 1 << 30, 1 << 20
	for name, tc := range map[string]struct {
		rule                 GrowthRule
		current, limit, want int64
	}{
		"Percent":          {rule: GrowthRule{ByPercent: 20}, current: 20 * gi, limit: 100 * gi, want: 24 * gi},
		"RoundsUp":         {rule: GrowthRule{ByPercent: 20}, current: gi, limit: 100 * gi, want: 2 * gi},
		"Quantity":         {rule: GrowthRule{By: 3 * gi}, current: 20 * gi, limit: 100 * gi, want: 23 * gi},
		"FromMi":           {rule: GrowthRule{ByPercent: 1}, current: 64 * mi, limit: 100 * gi, want: gi},
		"FromOneByte":      {rule: GrowthRule{ByPercent: 1}, current: gi, limit: 100 * gi, want: 2 * gi},
		"UpToTheLimit":     {rule: GrowthRule{ByPercent: 100}, current: 60 * gi, limit: 100 * gi, want: 100 * gi},
		"LimitNotWhole":    {rule: GrowthRule{ByPercent: 20}, current: 64 * mi, limit: 100 * mi, want: 100 * mi},
		"HasTheLimit":      {rule: GrowthRule{ByPercent: 20}, current: 100 * gi, limit: 100 * gi},
		"LargerThanLimit":  {rule: GrowthRule{ByPercent: 20}, current: 101 * gi, limit: 100 * gi},
		"WithoutOverflow":  {rule: GrowthRule{ByPercent: 100}, current: 1 << 62, limit: 1<<62 + 1, want: 1<<62 + 1},
		"WithoutOverflow2": {rule: GrowthRule{By: 1 << 60}, current: 1<<63 - gi, limit: 1<<63 - 1, want: 1<<63 - 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.rule.NextSize(tc.current, tc.limit); got != tc.want {
				t.Errorf("want %d, got %d", tc.want, got)
			}
		})
	}
}

func TestLargerSize(t *testing.T) {
	for _, tc := range []struct{ a, b, want string }{
		{"1Gi", "2Gi", "2Gi"}, {"2Gi", "1Gi", "2Gi"}, {"1Gi", "", "1Gi"}, {"", "1Gi", "1Gi"}, {"1Gi", "1024Mi", "1Gi"},
		{"1Gi", "1e99999999", "1Gi"}, {"big", "1Gi", "1Gi"}, {"big", "huge", "big"},
	} {
		if got := LargerSize(tc.a, tc.b); got != tc.want {
			t.Errorf("%q and %q: want %q, got %q", tc.a, tc.b, tc.want, got)
		}
	}
}
