# gnuplot profiles.gp draws profiles.svg and profiles.png

reset
set terminal svg noenhanced size 760,486 font 'Helvetica,13' background rgb 'white'
set output 'profiles.svg'
set multiplot
set style line 13 lc rgb '#0072B2' dt 1 lw 2 pt 7 ps 0.8
set style line 14 lc rgb '#D55E00' dt (14,4) lw 2 pt 5 ps 0.8
set style line 15 lc rgb '#009E73' dt (5,3) lw 2 pt 9 ps 0.8
set style line 20 lc rgb '#CC79A7' dt (14,3,3,3) lw 2 pt 13 ps 0.8
set style line 23 lc rgb '#E69F00' dt (2,3) lw 2 pt 11 ps 0.8
set style line 25 lc rgb '#56B4E9' dt (16,3,2,3,2,3) lw 2 pt 15 ps 0.8
set style line 26 lc rgb '#0072B2' dt (14,4) lw 2 pt 9 ps 0.8
set style line 27 lc rgb '#D55E00' dt (5,3) lw 2 pt 13 ps 0.8
set style line 30 lc rgb '#7F7F7F' dt (3,3) lw 2 pt 6 ps 0.8
set style line 31 lc rgb '#000000' dt (10,4) lw 2 pt 4 ps 0.8
set style line 100 lc rgb '#444444' dt (1,3) lw 1.5
set style line 101 lc rgb '#888888' dt (1,5) lw 1.5
unset border
unset tics
unset xlabel
unset ylabel
unset title
unset logscale
unset grid
set xrange [0:1]
set yrange [0:1]
set lmargin at screen 0
set rmargin at screen 1
set bmargin at screen 0.9382716049382716
set tmargin at screen 0.9876543209876543
set key at screen 0.5, screen 0.962962962962963 center center horizontal Left reverse samplen 3.5 width 1 maxrows 1
plot 2 with linespoints ls 13 title 'hqlt', 2 with linespoints ls 14 title 'hqlt_delayed_stream', 2 with linespoints ls 15 title 'hqlt_delayed_chunk'
set lmargin at screen 0
set rmargin at screen 1
set bmargin at screen 0.8888888888888888
set tmargin at screen 0.9382716049382716
set key at screen 0.5, screen 0.9135802469135803 center center horizontal Left reverse samplen 3.5 width 1 maxrows 1
plot 2 with linespoints ls 20 title 'gru', 2 with linespoints ls 23 title 'slstm', 2 with linespoints ls 25 title 's5'
set lmargin at screen 0
set rmargin at screen 1
set bmargin at screen 0.8395061728395061
set tmargin at screen 0.8888888888888888
set key at screen 0.5, screen 0.8641975308641976 center center horizontal Left reverse samplen 3.5 width 1 maxrows 1
plot 2 with linespoints ls 26 title 'rg_lru', 2 with linespoints ls 27 title 'ffm', 2 with linespoints ls 30 title 'none'
set lmargin at screen 0
set rmargin at screen 1
set bmargin at screen 0.7901234567901234
set tmargin at screen 0.8395061728395061
set key at screen 0.5, screen 0.8148148148148149 center center horizontal Left reverse samplen 3.5 width 1 maxrows 1
plot 2 with linespoints ls 31 title 'full_state'
unset key
set border 3 lc rgb '#333333'
set tics out scale 0.6
set lmargin at screen 0.09210526315789473
set rmargin at screen 0.9789473684210527
set bmargin at screen 0.12757201646090532
set tmargin at screen 0.7654320987654322
set title '' offset 0,-0.6
set xlabel 'final success above, %' offset 0,0.4
set ylabel 'fraction of runs, %' offset 1.2,0
set xrange [0:100]
set yrange [-0.03:1.03]
set ytics nomirror ('0' 0, '25' 0.25, '50' 0.5, '75' 0.75, '100' 1)
set grid ytics lc rgb '#E4E4E4' lt 1 lw 0.7
unset logscale x
set xtics nomirror 20
plot 'profiles.dat' index 0 using 1:3:4 with filledcurves ls 13 fs transparent solid 0.16 noborder notitle, 'profiles.dat' index 1 using 1:3:4 with filledcurves ls 14 fs transparent solid 0.16 noborder notitle, 'profiles.dat' index 2 using 1:3:4 with filledcurves ls 15 fs transparent solid 0.16 noborder notitle, 'profiles.dat' index 3 using 1:3:4 with filledcurves ls 20 fs transparent solid 0.16 noborder notitle, 'profiles.dat' index 4 using 1:3:4 with filledcurves ls 23 fs transparent solid 0.16 noborder notitle, 'profiles.dat' index 5 using 1:3:4 with filledcurves ls 25 fs transparent solid 0.16 noborder notitle, 'profiles.dat' index 6 using 1:3:4 with filledcurves ls 26 fs transparent solid 0.16 noborder notitle, 'profiles.dat' index 7 using 1:3:4 with filledcurves ls 27 fs transparent solid 0.16 noborder notitle, 'profiles.dat' index 8 using 1:3:4 with filledcurves ls 30 fs transparent solid 0.16 noborder notitle, 'profiles.dat' index 9 using 1:3:4 with filledcurves ls 31 fs transparent solid 0.16 noborder notitle, 'profiles.dat' index 0 using 1:2 with linespoints ls 13 pointinterval 16 notitle, 'profiles.dat' index 1 using 1:2 with linespoints ls 14 pointinterval 16 notitle, 'profiles.dat' index 2 using 1:2 with linespoints ls 15 pointinterval 16 notitle, 'profiles.dat' index 3 using 1:2 with linespoints ls 20 pointinterval 16 notitle, 'profiles.dat' index 4 using 1:2 with linespoints ls 23 pointinterval 16 notitle, 'profiles.dat' index 5 using 1:2 with linespoints ls 25 pointinterval 16 notitle, 'profiles.dat' index 6 using 1:2 with linespoints ls 26 pointinterval 16 notitle, 'profiles.dat' index 7 using 1:2 with linespoints ls 27 pointinterval 16 notitle, 'profiles.dat' index 8 using 1:2 with linespoints ls 30 pointinterval 16 notitle, 'profiles.dat' index 9 using 1:2 with linespoints ls 31 pointinterval 16 notitle
unset multiplot
set output

reset
set terminal pngcairo noenhanced size 1520,972 font 'Helvetica,20' linewidth 2 pointscale 2
set output 'profiles.png'
set multiplot
set style line 13 lc rgb '#0072B2' dt 1 lw 2 pt 7 ps 0.8
set style line 14 lc rgb '#D55E00' dt (14,4) lw 2 pt 5 ps 0.8
set style line 15 lc rgb '#009E73' dt (5,3) lw 2 pt 9 ps 0.8
set style line 20 lc rgb '#CC79A7' dt (14,3,3,3) lw 2 pt 13 ps 0.8
set style line 23 lc rgb '#E69F00' dt (2,3) lw 2 pt 11 ps 0.8
set style line 25 lc rgb '#56B4E9' dt (16,3,2,3,2,3) lw 2 pt 15 ps 0.8
set style line 26 lc rgb '#0072B2' dt (14,4) lw 2 pt 9 ps 0.8
set style line 27 lc rgb '#D55E00' dt (5,3) lw 2 pt 13 ps 0.8
set style line 30 lc rgb '#7F7F7F' dt (3,3) lw 2 pt 6 ps 0.8
set style line 31 lc rgb '#000000' dt (10,4) lw 2 pt 4 ps 0.8
set style line 100 lc rgb '#444444' dt (1,3) lw 1.5
set style line 101 lc rgb '#888888' dt (1,5) lw 1.5
unset border
unset tics
unset xlabel
unset ylabel
unset title
unset logscale
unset grid
set xrange [0:1]
set yrange [0:1]
set lmargin at screen 0
set rmargin at screen 1
set bmargin at screen 0.9382716049382716
set tmargin at screen 0.9876543209876543
set key at screen 0.5, screen 0.962962962962963 center center horizontal Left reverse samplen 3.5 width 1 maxrows 1
plot 2 with linespoints ls 13 title 'hqlt', 2 with linespoints ls 14 title 'hqlt_delayed_stream', 2 with linespoints ls 15 title 'hqlt_delayed_chunk'
set lmargin at screen 0
set rmargin at screen 1
set bmargin at screen 0.8888888888888888
set tmargin at screen 0.9382716049382716
set key at screen 0.5, screen 0.9135802469135803 center center horizontal Left reverse samplen 3.5 width 1 maxrows 1
plot 2 with linespoints ls 20 title 'gru', 2 with linespoints ls 23 title 'slstm', 2 with linespoints ls 25 title 's5'
set lmargin at screen 0
set rmargin at screen 1
set bmargin at screen 0.8395061728395061
set tmargin at screen 0.8888888888888888
set key at screen 0.5, screen 0.8641975308641976 center center horizontal Left reverse samplen 3.5 width 1 maxrows 1
plot 2 with linespoints ls 26 title 'rg_lru', 2 with linespoints ls 27 title 'ffm', 2 with linespoints ls 30 title 'none'
set lmargin at screen 0
set rmargin at screen 1
set bmargin at screen 0.7901234567901234
set tmargin at screen 0.8395061728395061
set key at screen 0.5, screen 0.8148148148148149 center center horizontal Left reverse samplen 3.5 width 1 maxrows 1
plot 2 with linespoints ls 31 title 'full_state'
unset key
set border 3 lc rgb '#333333'
set tics out scale 0.6
set lmargin at screen 0.09210526315789473
set rmargin at screen 0.9789473684210527
set bmargin at screen 0.12757201646090532
set tmargin at screen 0.7654320987654322
set title '' offset 0,-0.6
set xlabel 'final success above, %' offset 0,0.4
set ylabel 'fraction of runs, %' offset 1.2,0
set xrange [0:100]
set yrange [-0.03:1.03]
set ytics nomirror ('0' 0, '25' 0.25, '50' 0.5, '75' 0.75, '100' 1)
set grid ytics lc rgb '#E4E4E4' lt 1 lw 0.7
unset logscale x
set xtics nomirror 20
plot 'profiles.dat' index 0 using 1:3:4 with filledcurves ls 13 fs transparent solid 0.16 noborder notitle, 'profiles.dat' index 1 using 1:3:4 with filledcurves ls 14 fs transparent solid 0.16 noborder notitle, 'profiles.dat' index 2 using 1:3:4 with filledcurves ls 15 fs transparent solid 0.16 noborder notitle, 'profiles.dat' index 3 using 1:3:4 with filledcurves ls 20 fs transparent solid 0.16 noborder notitle, 'profiles.dat' index 4 using 1:3:4 with filledcurves ls 23 fs transparent solid 0.16 noborder notitle, 'profiles.dat' index 5 using 1:3:4 with filledcurves ls 25 fs transparent solid 0.16 noborder notitle, 'profiles.dat' index 6 using 1:3:4 with filledcurves ls 26 fs transparent solid 0.16 noborder notitle, 'profiles.dat' index 7 using 1:3:4 with filledcurves ls 27 fs transparent solid 0.16 noborder notitle, 'profiles.dat' index 8 using 1:3:4 with filledcurves ls 30 fs transparent solid 0.16 noborder notitle, 'profiles.dat' index 9 using 1:3:4 with filledcurves ls 31 fs transparent solid 0.16 noborder notitle, 'profiles.dat' index 0 using 1:2 with linespoints ls 13 pointinterval 16 notitle, 'profiles.dat' index 1 using 1:2 with linespoints ls 14 pointinterval 16 notitle, 'profiles.dat' index 2 using 1:2 with linespoints ls 15 pointinterval 16 notitle, 'profiles.dat' index 3 using 1:2 with linespoints ls 20 pointinterval 16 notitle, 'profiles.dat' index 4 using 1:2 with linespoints ls 23 pointinterval 16 notitle, 'profiles.dat' index 5 using 1:2 with linespoints ls 25 pointinterval 16 notitle, 'profiles.dat' index 6 using 1:2 with linespoints ls 26 pointinterval 16 notitle, 'profiles.dat' index 7 using 1:2 with linespoints ls 27 pointinterval 16 notitle, 'profiles.dat' index 8 using 1:2 with linespoints ls 30 pointinterval 16 notitle, 'profiles.dat' index 9 using 1:2 with linespoints ls 31 pointinterval 16 notitle
unset multiplot
set output
