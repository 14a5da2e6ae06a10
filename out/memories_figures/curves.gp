# gnuplot curves.gp draws curves.svg and curves.png

reset
set terminal svg noenhanced size 960,1332 font 'Helvetica,13' background rgb 'white'
set output 'curves.svg'
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
set bmargin at screen 0.9774774774774775
set tmargin at screen 0.9954954954954955
set key at screen 0.5, screen 0.9864864864864865 center center horizontal Left reverse samplen 3.5 width 1 maxrows 1
plot 2 with linespoints ls 13 title 'hqlt', 2 with linespoints ls 14 title 'hqlt_delayed_stream', 2 with linespoints ls 15 title 'hqlt_delayed_chunk', 2 with linespoints ls 20 title 'gru'
set lmargin at screen 0
set rmargin at screen 1
set bmargin at screen 0.9594594594594594
set tmargin at screen 0.9774774774774775
set key at screen 0.5, screen 0.9684684684684685 center center horizontal Left reverse samplen 3.5 width 1 maxrows 1
plot 2 with linespoints ls 23 title 'slstm', 2 with linespoints ls 25 title 's5', 2 with linespoints ls 26 title 'rg_lru', 2 with linespoints ls 27 title 'ffm'
set lmargin at screen 0
set rmargin at screen 1
set bmargin at screen 0.9414414414414415
set tmargin at screen 0.9594594594594594
set key at screen 0.5, screen 0.9504504504504504 center center horizontal Left reverse samplen 3.5 width 1 maxrows 1
plot 2 with linespoints ls 30 title 'none', 2 with linespoints ls 31 title 'full_state', 2 with lines ls 100 title 'chance', 2 with lines ls 101 title 'random play'
unset key
set border 3 lc rgb '#333333'
set tics out scale 0.6
set lmargin at screen 0.07291666666666667
set rmargin at screen 0.3416666666666667
set bmargin at screen 0.7972972972972973
set tmargin at screen 0.9204204204204204
set title 'visual_match_250' offset 0,-0.6
set xlabel 'thousand environment steps' offset 0,0.4
set ylabel 'success, %' offset 1.2,0
set xrange [40:1000]
set yrange [-0.03:1.03]
set ytics nomirror ('0' 0, '25' 0.25, '50' 0.5, '75' 0.75, '100' 1)
set grid ytics lc rgb '#E4E4E4' lt 1 lw 0.7
unset logscale x
set xtics nomirror 200
plot 'curves.dat' index 0 using 1:3:4 with filledcurves ls 27 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 1 using 1:3:4 with filledcurves ls 30 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 2 using 1:3:4 with filledcurves ls 31 fs transparent solid 0.16 noborder notitle, 0.3333333333333333 with lines ls 100 notitle, 0.067 with lines ls 101 notitle, 'curves.dat' index 0 using 1:2 with linespoints ls 27 pointinterval 4 notitle, 'curves.dat' index 1 using 1:2 with linespoints ls 30 pointinterval 4 notitle, 'curves.dat' index 2 using 1:2 with linespoints ls 31 pointinterval 4 notitle
set lmargin at screen 0.39375
set rmargin at screen 0.6625
set bmargin at screen 0.7972972972972973
set tmargin at screen 0.9204204204204204
set title 'repeat_first_easy' offset 0,-0.6
set xlabel 'thousand environment steps' offset 0,0.4
unset ylabel
set xrange [12:120]
set yrange [-0.03:1.03]
set ytics nomirror ('0' 0, '25' 0.25, '50' 0.5, '75' 0.75, '100' 1)
set grid ytics lc rgb '#E4E4E4' lt 1 lw 0.7
unset logscale x
set xtics nomirror 50
plot 'curves.dat' index 3 using 1:3:4 with filledcurves ls 13 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 4 using 1:3:4 with filledcurves ls 14 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 5 using 1:3:4 with filledcurves ls 15 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 6 using 1:3:4 with filledcurves ls 20 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 7 using 1:3:4 with filledcurves ls 23 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 8 using 1:3:4 with filledcurves ls 25 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 9 using 1:3:4 with filledcurves ls 27 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 10 using 1:3:4 with filledcurves ls 30 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 11 using 1:3:4 with filledcurves ls 31 fs transparent solid 0.16 noborder notitle, 0.25 with lines ls 100 notitle, 0 with lines ls 101 notitle, 'curves.dat' index 3 using 1:2 with linespoints ls 13 pointinterval 1 notitle, 'curves.dat' index 4 using 1:2 with linespoints ls 14 pointinterval 1 notitle, 'curves.dat' index 5 using 1:2 with linespoints ls 15 pointinterval 1 notitle, 'curves.dat' index 6 using 1:2 with linespoints ls 20 pointinterval 1 notitle, 'curves.dat' index 7 using 1:2 with linespoints ls 23 pointinterval 1 notitle, 'curves.dat' index 8 using 1:2 with linespoints ls 25 pointinterval 1 notitle, 'curves.dat' index 9 using 1:2 with linespoints ls 27 pointinterval 1 notitle, 'curves.dat' index 10 using 1:2 with linespoints ls 30 pointinterval 1 notitle, 'curves.dat' index 11 using 1:2 with linespoints ls 31 pointinterval 1 notitle
set lmargin at screen 0.7145833333333333
set rmargin at screen 0.9833333333333333
set bmargin at screen 0.7972972972972973
set tmargin at screen 0.9204204204204204
set title 'repeat_first_medium' offset 0,-0.6
set xlabel 'thousand environment steps' offset 0,0.4
unset ylabel
set xrange [30:300]
set yrange [-0.03:1.03]
set ytics nomirror ('0' 0, '25' 0.25, '50' 0.5, '75' 0.75, '100' 1)
set grid ytics lc rgb '#E4E4E4' lt 1 lw 0.7
unset logscale x
set xtics nomirror 100
plot 'curves.dat' index 12 using 1:3:4 with filledcurves ls 13 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 13 using 1:3:4 with filledcurves ls 14 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 14 using 1:3:4 with filledcurves ls 15 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 15 using 1:3:4 with filledcurves ls 23 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 16 using 1:3:4 with filledcurves ls 25 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 17 using 1:3:4 with filledcurves ls 26 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 18 using 1:3:4 with filledcurves ls 30 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 19 using 1:3:4 with filledcurves ls 31 fs transparent solid 0.16 noborder notitle, 0.25 with lines ls 100 notitle, 0 with lines ls 101 notitle, 'curves.dat' index 12 using 1:2 with linespoints ls 13 pointinterval 1 notitle, 'curves.dat' index 13 using 1:2 with linespoints ls 14 pointinterval 1 notitle, 'curves.dat' index 14 using 1:2 with linespoints ls 15 pointinterval 1 notitle, 'curves.dat' index 15 using 1:2 with linespoints ls 23 pointinterval 1 notitle, 'curves.dat' index 16 using 1:2 with linespoints ls 25 pointinterval 1 notitle, 'curves.dat' index 17 using 1:2 with linespoints ls 26 pointinterval 1 notitle, 'curves.dat' index 18 using 1:2 with linespoints ls 30 pointinterval 1 notitle, 'curves.dat' index 19 using 1:2 with linespoints ls 31 pointinterval 1 notitle
set lmargin at screen 0.07291666666666667
set rmargin at screen 0.3416666666666667
set bmargin at screen 0.6096096096096096
set tmargin at screen 0.7327327327327327
set title 'repeat_first_hard' offset 0,-0.6
set xlabel 'thousand environment steps' offset 0,0.4
set ylabel 'success, %' offset 1.2,0
set xrange [60:600]
set yrange [-0.03:1.03]
set ytics nomirror ('0' 0, '25' 0.25, '50' 0.5, '75' 0.75, '100' 1)
set grid ytics lc rgb '#E4E4E4' lt 1 lw 0.7
unset logscale x
set xtics nomirror 200
plot 'curves.dat' index 20 using 1:3:4 with filledcurves ls 13 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 21 using 1:3:4 with filledcurves ls 14 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 22 using 1:3:4 with filledcurves ls 15 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 23 using 1:3:4 with filledcurves ls 23 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 24 using 1:3:4 with filledcurves ls 26 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 25 using 1:3:4 with filledcurves ls 27 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 26 using 1:3:4 with filledcurves ls 30 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 27 using 1:3:4 with filledcurves ls 31 fs transparent solid 0.16 noborder notitle, 0.25 with lines ls 100 notitle, 0 with lines ls 101 notitle, 'curves.dat' index 20 using 1:2 with linespoints ls 13 pointinterval 1 notitle, 'curves.dat' index 21 using 1:2 with linespoints ls 14 pointinterval 1 notitle, 'curves.dat' index 22 using 1:2 with linespoints ls 15 pointinterval 1 notitle, 'curves.dat' index 23 using 1:2 with linespoints ls 23 pointinterval 1 notitle, 'curves.dat' index 24 using 1:2 with linespoints ls 26 pointinterval 1 notitle, 'curves.dat' index 25 using 1:2 with linespoints ls 27 pointinterval 1 notitle, 'curves.dat' index 26 using 1:2 with linespoints ls 30 pointinterval 1 notitle, 'curves.dat' index 27 using 1:2 with linespoints ls 31 pointinterval 1 notitle
set lmargin at screen 0.39375
set rmargin at screen 0.6625
set bmargin at screen 0.6096096096096096
set tmargin at screen 0.7327327327327327
set title 'repeat_previous_easy' offset 0,-0.6
set xlabel 'thousand environment steps' offset 0,0.4
unset ylabel
set xrange [10:150]
set yrange [-0.03:1.03]
set ytics nomirror ('0' 0, '25' 0.25, '50' 0.5, '75' 0.75, '100' 1)
set grid ytics lc rgb '#E4E4E4' lt 1 lw 0.7
unset logscale x
set xtics nomirror 50
plot 'curves.dat' index 28 using 1:3:4 with filledcurves ls 14 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 29 using 1:3:4 with filledcurves ls 20 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 30 using 1:3:4 with filledcurves ls 25 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 31 using 1:3:4 with filledcurves ls 26 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 32 using 1:3:4 with filledcurves ls 27 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 33 using 1:3:4 with filledcurves ls 31 fs transparent solid 0.16 noborder notitle, 0 with lines ls 100 notitle, 'curves.dat' index 28 using 1:2 with linespoints ls 14 pointinterval 2 notitle, 'curves.dat' index 29 using 1:2 with linespoints ls 20 pointinterval 2 notitle, 'curves.dat' index 30 using 1:2 with linespoints ls 25 pointinterval 2 notitle, 'curves.dat' index 31 using 1:2 with linespoints ls 26 pointinterval 2 notitle, 'curves.dat' index 32 using 1:2 with linespoints ls 27 pointinterval 2 notitle, 'curves.dat' index 33 using 1:2 with linespoints ls 31 pointinterval 2 notitle
set lmargin at screen 0.7145833333333333
set rmargin at screen 0.9833333333333333
set bmargin at screen 0.6096096096096096
set tmargin at screen 0.7327327327327327
set title 'repeat_previous_hard' offset 0,-0.6
set xlabel 'thousand environment steps' offset 0,0.4
unset ylabel
set xrange [16:160]
set yrange [-0.03:1.03]
set ytics nomirror ('0' 0, '25' 0.25, '50' 0.5, '75' 0.75, '100' 1)
set grid ytics lc rgb '#E4E4E4' lt 1 lw 0.7
unset logscale x
set xtics nomirror 50
plot 'curves.dat' index 34 using 1:3:4 with filledcurves ls 13 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 35 using 1:3:4 with filledcurves ls 15 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 36 using 1:3:4 with filledcurves ls 20 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 37 using 1:3:4 with filledcurves ls 23 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 38 using 1:3:4 with filledcurves ls 25 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 39 using 1:3:4 with filledcurves ls 26 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 40 using 1:3:4 with filledcurves ls 27 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 41 using 1:3:4 with filledcurves ls 30 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 42 using 1:3:4 with filledcurves ls 31 fs transparent solid 0.16 noborder notitle, 0 with lines ls 100 notitle, 'curves.dat' index 34 using 1:2 with linespoints ls 13 pointinterval 1 notitle, 'curves.dat' index 35 using 1:2 with linespoints ls 15 pointinterval 1 notitle, 'curves.dat' index 36 using 1:2 with linespoints ls 20 pointinterval 1 notitle, 'curves.dat' index 37 using 1:2 with linespoints ls 23 pointinterval 1 notitle, 'curves.dat' index 38 using 1:2 with linespoints ls 25 pointinterval 1 notitle, 'curves.dat' index 39 using 1:2 with linespoints ls 26 pointinterval 1 notitle, 'curves.dat' index 40 using 1:2 with linespoints ls 27 pointinterval 1 notitle, 'curves.dat' index 41 using 1:2 with linespoints ls 30 pointinterval 1 notitle, 'curves.dat' index 42 using 1:2 with linespoints ls 31 pointinterval 1 notitle
set lmargin at screen 0.07291666666666667
set rmargin at screen 0.3416666666666667
set bmargin at screen 0.4219219219219219
set tmargin at screen 0.545045045045045
set title 'autoencode_easy' offset 0,-0.6
set xlabel 'thousand environment steps' offset 0,0.4
set ylabel 'success, %' offset 1.2,0
set xrange [14:140]
set yrange [-0.03:1.03]
set ytics nomirror ('0' 0, '25' 0.25, '50' 0.5, '75' 0.75, '100' 1)
set grid ytics lc rgb '#E4E4E4' lt 1 lw 0.7
unset logscale x
set xtics nomirror 50
plot 'curves.dat' index 43 using 1:3:4 with filledcurves ls 13 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 44 using 1:3:4 with filledcurves ls 14 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 45 using 1:3:4 with filledcurves ls 15 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 46 using 1:3:4 with filledcurves ls 20 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 47 using 1:3:4 with filledcurves ls 23 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 48 using 1:3:4 with filledcurves ls 26 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 49 using 1:3:4 with filledcurves ls 27 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 50 using 1:3:4 with filledcurves ls 30 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 51 using 1:3:4 with filledcurves ls 31 fs transparent solid 0.16 noborder notitle, 0 with lines ls 100 notitle, 'curves.dat' index 43 using 1:2 with linespoints ls 13 pointinterval 1 notitle, 'curves.dat' index 44 using 1:2 with linespoints ls 14 pointinterval 1 notitle, 'curves.dat' index 45 using 1:2 with linespoints ls 15 pointinterval 1 notitle, 'curves.dat' index 46 using 1:2 with linespoints ls 20 pointinterval 1 notitle, 'curves.dat' index 47 using 1:2 with linespoints ls 23 pointinterval 1 notitle, 'curves.dat' index 48 using 1:2 with linespoints ls 26 pointinterval 1 notitle, 'curves.dat' index 49 using 1:2 with linespoints ls 27 pointinterval 1 notitle, 'curves.dat' index 50 using 1:2 with linespoints ls 30 pointinterval 1 notitle, 'curves.dat' index 51 using 1:2 with linespoints ls 31 pointinterval 1 notitle
set lmargin at screen 0.39375
set rmargin at screen 0.6625
set bmargin at screen 0.4219219219219219
set tmargin at screen 0.545045045045045
set title 'concentration_easy' offset 0,-0.6
set xlabel 'thousand environment steps' offset 0,0.4
unset ylabel
set xrange [12:120]
set yrange [-0.03:1.03]
set ytics nomirror ('0' 0, '25' 0.25, '50' 0.5, '75' 0.75, '100' 1)
set grid ytics lc rgb '#E4E4E4' lt 1 lw 0.7
unset logscale x
set xtics nomirror 50
plot 'curves.dat' index 52 using 1:3:4 with filledcurves ls 13 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 53 using 1:3:4 with filledcurves ls 14 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 54 using 1:3:4 with filledcurves ls 15 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 55 using 1:3:4 with filledcurves ls 20 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 56 using 1:3:4 with filledcurves ls 23 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 57 using 1:3:4 with filledcurves ls 26 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 58 using 1:3:4 with filledcurves ls 27 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 59 using 1:3:4 with filledcurves ls 30 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 60 using 1:3:4 with filledcurves ls 31 fs transparent solid 0.16 noborder notitle, 0 with lines ls 100 notitle, 'curves.dat' index 52 using 1:2 with linespoints ls 13 pointinterval 1 notitle, 'curves.dat' index 53 using 1:2 with linespoints ls 14 pointinterval 1 notitle, 'curves.dat' index 54 using 1:2 with linespoints ls 15 pointinterval 1 notitle, 'curves.dat' index 55 using 1:2 with linespoints ls 20 pointinterval 1 notitle, 'curves.dat' index 56 using 1:2 with linespoints ls 23 pointinterval 1 notitle, 'curves.dat' index 57 using 1:2 with linespoints ls 26 pointinterval 1 notitle, 'curves.dat' index 58 using 1:2 with linespoints ls 27 pointinterval 1 notitle, 'curves.dat' index 59 using 1:2 with linespoints ls 30 pointinterval 1 notitle, 'curves.dat' index 60 using 1:2 with linespoints ls 31 pointinterval 1 notitle
set lmargin at screen 0.7145833333333333
set rmargin at screen 0.9833333333333333
set bmargin at screen 0.4219219219219219
set tmargin at screen 0.545045045045045
set title 'memory_len_30' offset 0,-0.6
set xlabel 'thousand environment steps' offset 0,0.4
unset ylabel
set xrange [10:100]
set yrange [-0.03:1.03]
set ytics nomirror ('0' 0, '25' 0.25, '50' 0.5, '75' 0.75, '100' 1)
set grid ytics lc rgb '#E4E4E4' lt 1 lw 0.7
unset logscale x
set xtics nomirror 20
plot 'curves.dat' index 61 using 1:3:4 with filledcurves ls 13 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 62 using 1:3:4 with filledcurves ls 14 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 63 using 1:3:4 with filledcurves ls 15 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 64 using 1:3:4 with filledcurves ls 25 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 65 using 1:3:4 with filledcurves ls 26 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 66 using 1:3:4 with filledcurves ls 27 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 67 using 1:3:4 with filledcurves ls 31 fs transparent solid 0.16 noborder notitle, 0.5 with lines ls 100 notitle, 0.502 with lines ls 101 notitle, 'curves.dat' index 61 using 1:2 with linespoints ls 13 pointinterval 1 notitle, 'curves.dat' index 62 using 1:2 with linespoints ls 14 pointinterval 1 notitle, 'curves.dat' index 63 using 1:2 with linespoints ls 15 pointinterval 1 notitle, 'curves.dat' index 64 using 1:2 with linespoints ls 25 pointinterval 1 notitle, 'curves.dat' index 65 using 1:2 with linespoints ls 26 pointinterval 1 notitle, 'curves.dat' index 66 using 1:2 with linespoints ls 27 pointinterval 1 notitle, 'curves.dat' index 67 using 1:2 with linespoints ls 31 pointinterval 1 notitle
set lmargin at screen 0.07291666666666667
set rmargin at screen 0.3416666666666667
set bmargin at screen 0.23423423423423428
set tmargin at screen 0.3573573573573574
set title 'memory_len_100' offset 0,-0.6
set xlabel 'thousand environment steps' offset 0,0.4
set ylabel 'success, %' offset 1.2,0
set xrange [20:200]
set yrange [-0.03:1.03]
set ytics nomirror ('0' 0, '25' 0.25, '50' 0.5, '75' 0.75, '100' 1)
set grid ytics lc rgb '#E4E4E4' lt 1 lw 0.7
unset logscale x
set xtics nomirror 50
plot 'curves.dat' index 68 using 1:3:4 with filledcurves ls 13 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 69 using 1:3:4 with filledcurves ls 14 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 70 using 1:3:4 with filledcurves ls 15 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 71 using 1:3:4 with filledcurves ls 20 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 72 using 1:3:4 with filledcurves ls 23 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 73 using 1:3:4 with filledcurves ls 25 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 74 using 1:3:4 with filledcurves ls 26 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 75 using 1:3:4 with filledcurves ls 27 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 76 using 1:3:4 with filledcurves ls 30 fs transparent solid 0.16 noborder notitle, 0.5 with lines ls 100 notitle, 0.481 with lines ls 101 notitle, 'curves.dat' index 68 using 1:2 with linespoints ls 13 pointinterval 1 notitle, 'curves.dat' index 69 using 1:2 with linespoints ls 14 pointinterval 1 notitle, 'curves.dat' index 70 using 1:2 with linespoints ls 15 pointinterval 1 notitle, 'curves.dat' index 71 using 1:2 with linespoints ls 20 pointinterval 1 notitle, 'curves.dat' index 72 using 1:2 with linespoints ls 23 pointinterval 1 notitle, 'curves.dat' index 73 using 1:2 with linespoints ls 25 pointinterval 1 notitle, 'curves.dat' index 74 using 1:2 with linespoints ls 26 pointinterval 1 notitle, 'curves.dat' index 75 using 1:2 with linespoints ls 27 pointinterval 1 notitle, 'curves.dat' index 76 using 1:2 with linespoints ls 30 pointinterval 1 notitle
set lmargin at screen 0.39375
set rmargin at screen 0.6625
set bmargin at screen 0.23423423423423428
set tmargin at screen 0.3573573573573574
set title 'minigrid_memory_s9' offset 0,-0.6
set xlabel 'thousand environment steps' offset 0,0.4
unset ylabel
set xrange [40:200]
set yrange [-0.03:1.03]
set ytics nomirror ('0' 0, '25' 0.25, '50' 0.5, '75' 0.75, '100' 1)
set grid ytics lc rgb '#E4E4E4' lt 1 lw 0.7
unset logscale x
set xtics nomirror 50
plot 'curves.dat' index 77 using 1:3:4 with filledcurves ls 13 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 78 using 1:3:4 with filledcurves ls 14 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 79 using 1:3:4 with filledcurves ls 15 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 80 using 1:3:4 with filledcurves ls 20 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 81 using 1:3:4 with filledcurves ls 23 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 82 using 1:3:4 with filledcurves ls 25 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 83 using 1:3:4 with filledcurves ls 26 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 84 using 1:3:4 with filledcurves ls 27 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 85 using 1:3:4 with filledcurves ls 30 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 86 using 1:3:4 with filledcurves ls 31 fs transparent solid 0.16 noborder notitle, 0.5 with lines ls 100 notitle, 0.23 with lines ls 101 notitle, 'curves.dat' index 77 using 1:2 with linespoints ls 13 pointinterval 1 notitle, 'curves.dat' index 78 using 1:2 with linespoints ls 14 pointinterval 1 notitle, 'curves.dat' index 79 using 1:2 with linespoints ls 15 pointinterval 1 notitle, 'curves.dat' index 80 using 1:2 with linespoints ls 20 pointinterval 1 notitle, 'curves.dat' index 81 using 1:2 with linespoints ls 23 pointinterval 1 notitle, 'curves.dat' index 82 using 1:2 with linespoints ls 25 pointinterval 1 notitle, 'curves.dat' index 83 using 1:2 with linespoints ls 26 pointinterval 1 notitle, 'curves.dat' index 84 using 1:2 with linespoints ls 27 pointinterval 1 notitle, 'curves.dat' index 85 using 1:2 with linespoints ls 30 pointinterval 1 notitle, 'curves.dat' index 86 using 1:2 with linespoints ls 31 pointinterval 1 notitle
set lmargin at screen 0.7145833333333333
set rmargin at screen 0.9833333333333333
set bmargin at screen 0.23423423423423428
set tmargin at screen 0.3573573573573574
set title 'minigrid_memory_s11' offset 0,-0.6
set xlabel 'thousand environment steps' offset 0,0.4
unset ylabel
set xrange [40:200]
set yrange [-0.03:1.03]
set ytics nomirror ('0' 0, '25' 0.25, '50' 0.5, '75' 0.75, '100' 1)
set grid ytics lc rgb '#E4E4E4' lt 1 lw 0.7
unset logscale x
set xtics nomirror 50
plot 'curves.dat' index 87 using 1:3:4 with filledcurves ls 13 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 88 using 1:3:4 with filledcurves ls 14 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 89 using 1:3:4 with filledcurves ls 15 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 90 using 1:3:4 with filledcurves ls 20 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 91 using 1:3:4 with filledcurves ls 23 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 92 using 1:3:4 with filledcurves ls 25 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 93 using 1:3:4 with filledcurves ls 26 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 94 using 1:3:4 with filledcurves ls 27 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 95 using 1:3:4 with filledcurves ls 30 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 96 using 1:3:4 with filledcurves ls 31 fs transparent solid 0.16 noborder notitle, 0.5 with lines ls 100 notitle, 0.283 with lines ls 101 notitle, 'curves.dat' index 87 using 1:2 with linespoints ls 13 pointinterval 1 notitle, 'curves.dat' index 88 using 1:2 with linespoints ls 14 pointinterval 1 notitle, 'curves.dat' index 89 using 1:2 with linespoints ls 15 pointinterval 1 notitle, 'curves.dat' index 90 using 1:2 with linespoints ls 20 pointinterval 1 notitle, 'curves.dat' index 91 using 1:2 with linespoints ls 23 pointinterval 1 notitle, 'curves.dat' index 92 using 1:2 with linespoints ls 25 pointinterval 1 notitle, 'curves.dat' index 93 using 1:2 with linespoints ls 26 pointinterval 1 notitle, 'curves.dat' index 94 using 1:2 with linespoints ls 27 pointinterval 1 notitle, 'curves.dat' index 95 using 1:2 with linespoints ls 30 pointinterval 1 notitle, 'curves.dat' index 96 using 1:2 with linespoints ls 31 pointinterval 1 notitle
set lmargin at screen 0.07291666666666667
set rmargin at screen 0.3416666666666667
set bmargin at screen 0.04654654654654655
set tmargin at screen 0.16966966966966968
set title 'minigrid_memory_s13' offset 0,-0.6
set xlabel 'thousand environment steps' offset 0,0.4
set ylabel 'success, %' offset 1.2,0
set xrange [80:400]
set yrange [-0.03:1.03]
set ytics nomirror ('0' 0, '25' 0.25, '50' 0.5, '75' 0.75, '100' 1)
set grid ytics lc rgb '#E4E4E4' lt 1 lw 0.7
unset logscale x
set xtics nomirror 100
plot 'curves.dat' index 97 using 1:3:4 with filledcurves ls 13 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 98 using 1:3:4 with filledcurves ls 14 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 99 using 1:3:4 with filledcurves ls 15 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 100 using 1:3:4 with filledcurves ls 20 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 101 using 1:3:4 with filledcurves ls 23 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 102 using 1:3:4 with filledcurves ls 25 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 103 using 1:3:4 with filledcurves ls 26 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 104 using 1:3:4 with filledcurves ls 27 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 105 using 1:3:4 with filledcurves ls 30 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 106 using 1:3:4 with filledcurves ls 31 fs transparent solid 0.16 noborder notitle, 0.5 with lines ls 100 notitle, 0.295 with lines ls 101 notitle, 'curves.dat' index 97 using 1:2 with linespoints ls 13 pointinterval 1 notitle, 'curves.dat' index 98 using 1:2 with linespoints ls 14 pointinterval 1 notitle, 'curves.dat' index 99 using 1:2 with linespoints ls 15 pointinterval 1 notitle, 'curves.dat' index 100 using 1:2 with linespoints ls 20 pointinterval 1 notitle, 'curves.dat' index 101 using 1:2 with linespoints ls 23 pointinterval 1 notitle, 'curves.dat' index 102 using 1:2 with linespoints ls 25 pointinterval 1 notitle, 'curves.dat' index 103 using 1:2 with linespoints ls 26 pointinterval 1 notitle, 'curves.dat' index 104 using 1:2 with linespoints ls 27 pointinterval 1 notitle, 'curves.dat' index 105 using 1:2 with linespoints ls 30 pointinterval 1 notitle, 'curves.dat' index 106 using 1:2 with linespoints ls 31 pointinterval 1 notitle
set lmargin at screen 0.39375
set rmargin at screen 0.6625
set bmargin at screen 0.04654654654654655
set tmargin at screen 0.16966966966966968
set title 'minigrid_memory_s17_random' offset 0,-0.6
set xlabel 'thousand environment steps' offset 0,0.4
unset ylabel
set xrange [80:480]
set yrange [-0.03:1.03]
set ytics nomirror ('0' 0, '25' 0.25, '50' 0.5, '75' 0.75, '100' 1)
set grid ytics lc rgb '#E4E4E4' lt 1 lw 0.7
unset logscale x
set xtics nomirror 100
plot 'curves.dat' index 107 using 1:3:4 with filledcurves ls 13 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 108 using 1:3:4 with filledcurves ls 14 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 109 using 1:3:4 with filledcurves ls 15 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 110 using 1:3:4 with filledcurves ls 20 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 111 using 1:3:4 with filledcurves ls 23 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 112 using 1:3:4 with filledcurves ls 25 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 113 using 1:3:4 with filledcurves ls 26 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 114 using 1:3:4 with filledcurves ls 31 fs transparent solid 0.16 noborder notitle, 0.5 with lines ls 100 notitle, 0.344 with lines ls 101 notitle, 'curves.dat' index 107 using 1:2 with linespoints ls 13 pointinterval 1 notitle, 'curves.dat' index 108 using 1:2 with linespoints ls 14 pointinterval 1 notitle, 'curves.dat' index 109 using 1:2 with linespoints ls 15 pointinterval 1 notitle, 'curves.dat' index 110 using 1:2 with linespoints ls 20 pointinterval 1 notitle, 'curves.dat' index 111 using 1:2 with linespoints ls 23 pointinterval 1 notitle, 'curves.dat' index 112 using 1:2 with linespoints ls 25 pointinterval 1 notitle, 'curves.dat' index 113 using 1:2 with linespoints ls 26 pointinterval 1 notitle, 'curves.dat' index 114 using 1:2 with linespoints ls 31 pointinterval 1 notitle
unset multiplot
set output

reset
set terminal pngcairo noenhanced size 1920,2664 font 'Helvetica,20' linewidth 2 pointscale 2
set output 'curves.png'
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
set bmargin at screen 0.9774774774774775
set tmargin at screen 0.9954954954954955
set key at screen 0.5, screen 0.9864864864864865 center center horizontal Left reverse samplen 3.5 width 1 maxrows 1
plot 2 with linespoints ls 13 title 'hqlt', 2 with linespoints ls 14 title 'hqlt_delayed_stream', 2 with linespoints ls 15 title 'hqlt_delayed_chunk', 2 with linespoints ls 20 title 'gru'
set lmargin at screen 0
set rmargin at screen 1
set bmargin at screen 0.9594594594594594
set tmargin at screen 0.9774774774774775
set key at screen 0.5, screen 0.9684684684684685 center center horizontal Left reverse samplen 3.5 width 1 maxrows 1
plot 2 with linespoints ls 23 title 'slstm', 2 with linespoints ls 25 title 's5', 2 with linespoints ls 26 title 'rg_lru', 2 with linespoints ls 27 title 'ffm'
set lmargin at screen 0
set rmargin at screen 1
set bmargin at screen 0.9414414414414415
set tmargin at screen 0.9594594594594594
set key at screen 0.5, screen 0.9504504504504504 center center horizontal Left reverse samplen 3.5 width 1 maxrows 1
plot 2 with linespoints ls 30 title 'none', 2 with linespoints ls 31 title 'full_state', 2 with lines ls 100 title 'chance', 2 with lines ls 101 title 'random play'
unset key
set border 3 lc rgb '#333333'
set tics out scale 0.6
set lmargin at screen 0.07291666666666667
set rmargin at screen 0.3416666666666667
set bmargin at screen 0.7972972972972973
set tmargin at screen 0.9204204204204204
set title 'visual_match_250' offset 0,-0.6
set xlabel 'thousand environment steps' offset 0,0.4
set ylabel 'success, %' offset 1.2,0
set xrange [40:1000]
set yrange [-0.03:1.03]
set ytics nomirror ('0' 0, '25' 0.25, '50' 0.5, '75' 0.75, '100' 1)
set grid ytics lc rgb '#E4E4E4' lt 1 lw 0.7
unset logscale x
set xtics nomirror 200
plot 'curves.dat' index 0 using 1:3:4 with filledcurves ls 27 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 1 using 1:3:4 with filledcurves ls 30 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 2 using 1:3:4 with filledcurves ls 31 fs transparent solid 0.16 noborder notitle, 0.3333333333333333 with lines ls 100 notitle, 0.067 with lines ls 101 notitle, 'curves.dat' index 0 using 1:2 with linespoints ls 27 pointinterval 4 notitle, 'curves.dat' index 1 using 1:2 with linespoints ls 30 pointinterval 4 notitle, 'curves.dat' index 2 using 1:2 with linespoints ls 31 pointinterval 4 notitle
set lmargin at screen 0.39375
set rmargin at screen 0.6625
set bmargin at screen 0.7972972972972973
set tmargin at screen 0.9204204204204204
set title 'repeat_first_easy' offset 0,-0.6
set xlabel 'thousand environment steps' offset 0,0.4
unset ylabel
set xrange [12:120]
set yrange [-0.03:1.03]
set ytics nomirror ('0' 0, '25' 0.25, '50' 0.5, '75' 0.75, '100' 1)
set grid ytics lc rgb '#E4E4E4' lt 1 lw 0.7
unset logscale x
set xtics nomirror 50
plot 'curves.dat' index 3 using 1:3:4 with filledcurves ls 13 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 4 using 1:3:4 with filledcurves ls 14 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 5 using 1:3:4 with filledcurves ls 15 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 6 using 1:3:4 with filledcurves ls 20 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 7 using 1:3:4 with filledcurves ls 23 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 8 using 1:3:4 with filledcurves ls 25 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 9 using 1:3:4 with filledcurves ls 27 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 10 using 1:3:4 with filledcurves ls 30 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 11 using 1:3:4 with filledcurves ls 31 fs transparent solid 0.16 noborder notitle, 0.25 with lines ls 100 notitle, 0 with lines ls 101 notitle, 'curves.dat' index 3 using 1:2 with linespoints ls 13 pointinterval 1 notitle, 'curves.dat' index 4 using 1:2 with linespoints ls 14 pointinterval 1 notitle, 'curves.dat' index 5 using 1:2 with linespoints ls 15 pointinterval 1 notitle, 'curves.dat' index 6 using 1:2 with linespoints ls 20 pointinterval 1 notitle, 'curves.dat' index 7 using 1:2 with linespoints ls 23 pointinterval 1 notitle, 'curves.dat' index 8 using 1:2 with linespoints ls 25 pointinterval 1 notitle, 'curves.dat' index 9 using 1:2 with linespoints ls 27 pointinterval 1 notitle, 'curves.dat' index 10 using 1:2 with linespoints ls 30 pointinterval 1 notitle, 'curves.dat' index 11 using 1:2 with linespoints ls 31 pointinterval 1 notitle
set lmargin at screen 0.7145833333333333
set rmargin at screen 0.9833333333333333
set bmargin at screen 0.7972972972972973
set tmargin at screen 0.9204204204204204
set title 'repeat_first_medium' offset 0,-0.6
set xlabel 'thousand environment steps' offset 0,0.4
unset ylabel
set xrange [30:300]
set yrange [-0.03:1.03]
set ytics nomirror ('0' 0, '25' 0.25, '50' 0.5, '75' 0.75, '100' 1)
set grid ytics lc rgb '#E4E4E4' lt 1 lw 0.7
unset logscale x
set xtics nomirror 100
plot 'curves.dat' index 12 using 1:3:4 with filledcurves ls 13 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 13 using 1:3:4 with filledcurves ls 14 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 14 using 1:3:4 with filledcurves ls 15 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 15 using 1:3:4 with filledcurves ls 23 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 16 using 1:3:4 with filledcurves ls 25 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 17 using 1:3:4 with filledcurves ls 26 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 18 using 1:3:4 with filledcurves ls 30 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 19 using 1:3:4 with filledcurves ls 31 fs transparent solid 0.16 noborder notitle, 0.25 with lines ls 100 notitle, 0 with lines ls 101 notitle, 'curves.dat' index 12 using 1:2 with linespoints ls 13 pointinterval 1 notitle, 'curves.dat' index 13 using 1:2 with linespoints ls 14 pointinterval 1 notitle, 'curves.dat' index 14 using 1:2 with linespoints ls 15 pointinterval 1 notitle, 'curves.dat' index 15 using 1:2 with linespoints ls 23 pointinterval 1 notitle, 'curves.dat' index 16 using 1:2 with linespoints ls 25 pointinterval 1 notitle, 'curves.dat' index 17 using 1:2 with linespoints ls 26 pointinterval 1 notitle, 'curves.dat' index 18 using 1:2 with linespoints ls 30 pointinterval 1 notitle, 'curves.dat' index 19 using 1:2 with linespoints ls 31 pointinterval 1 notitle
set lmargin at screen 0.07291666666666667
set rmargin at screen 0.3416666666666667
set bmargin at screen 0.6096096096096096
set tmargin at screen 0.7327327327327327
set title 'repeat_first_hard' offset 0,-0.6
set xlabel 'thousand environment steps' offset 0,0.4
set ylabel 'success, %' offset 1.2,0
set xrange [60:600]
set yrange [-0.03:1.03]
set ytics nomirror ('0' 0, '25' 0.25, '50' 0.5, '75' 0.75, '100' 1)
set grid ytics lc rgb '#E4E4E4' lt 1 lw 0.7
unset logscale x
set xtics nomirror 200
plot 'curves.dat' index 20 using 1:3:4 with filledcurves ls 13 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 21 using 1:3:4 with filledcurves ls 14 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 22 using 1:3:4 with filledcurves ls 15 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 23 using 1:3:4 with filledcurves ls 23 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 24 using 1:3:4 with filledcurves ls 26 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 25 using 1:3:4 with filledcurves ls 27 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 26 using 1:3:4 with filledcurves ls 30 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 27 using 1:3:4 with filledcurves ls 31 fs transparent solid 0.16 noborder notitle, 0.25 with lines ls 100 notitle, 0 with lines ls 101 notitle, 'curves.dat' index 20 using 1:2 with linespoints ls 13 pointinterval 1 notitle, 'curves.dat' index 21 using 1:2 with linespoints ls 14 pointinterval 1 notitle, 'curves.dat' index 22 using 1:2 with linespoints ls 15 pointinterval 1 notitle, 'curves.dat' index 23 using 1:2 with linespoints ls 23 pointinterval 1 notitle, 'curves.dat' index 24 using 1:2 with linespoints ls 26 pointinterval 1 notitle, 'curves.dat' index 25 using 1:2 with linespoints ls 27 pointinterval 1 notitle, 'curves.dat' index 26 using 1:2 with linespoints ls 30 pointinterval 1 notitle, 'curves.dat' index 27 using 1:2 with linespoints ls 31 pointinterval 1 notitle
set lmargin at screen 0.39375
set rmargin at screen 0.6625
set bmargin at screen 0.6096096096096096
set tmargin at screen 0.7327327327327327
set title 'repeat_previous_easy' offset 0,-0.6
set xlabel 'thousand environment steps' offset 0,0.4
unset ylabel
set xrange [10:150]
set yrange [-0.03:1.03]
set ytics nomirror ('0' 0, '25' 0.25, '50' 0.5, '75' 0.75, '100' 1)
set grid ytics lc rgb '#E4E4E4' lt 1 lw 0.7
unset logscale x
set xtics nomirror 50
plot 'curves.dat' index 28 using 1:3:4 with filledcurves ls 14 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 29 using 1:3:4 with filledcurves ls 20 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 30 using 1:3:4 with filledcurves ls 25 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 31 using 1:3:4 with filledcurves ls 26 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 32 using 1:3:4 with filledcurves ls 27 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 33 using 1:3:4 with filledcurves ls 31 fs transparent solid 0.16 noborder notitle, 0 with lines ls 100 notitle, 'curves.dat' index 28 using 1:2 with linespoints ls 14 pointinterval 2 notitle, 'curves.dat' index 29 using 1:2 with linespoints ls 20 pointinterval 2 notitle, 'curves.dat' index 30 using 1:2 with linespoints ls 25 pointinterval 2 notitle, 'curves.dat' index 31 using 1:2 with linespoints ls 26 pointinterval 2 notitle, 'curves.dat' index 32 using 1:2 with linespoints ls 27 pointinterval 2 notitle, 'curves.dat' index 33 using 1:2 with linespoints ls 31 pointinterval 2 notitle
set lmargin at screen 0.7145833333333333
set rmargin at screen 0.9833333333333333
set bmargin at screen 0.6096096096096096
set tmargin at screen 0.7327327327327327
set title 'repeat_previous_hard' offset 0,-0.6
set xlabel 'thousand environment steps' offset 0,0.4
unset ylabel
set xrange [16:160]
set yrange [-0.03:1.03]
set ytics nomirror ('0' 0, '25' 0.25, '50' 0.5, '75' 0.75, '100' 1)
set grid ytics lc rgb '#E4E4E4' lt 1 lw 0.7
unset logscale x
set xtics nomirror 50
plot 'curves.dat' index 34 using 1:3:4 with filledcurves ls 13 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 35 using 1:3:4 with filledcurves ls 15 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 36 using 1:3:4 with filledcurves ls 20 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 37 using 1:3:4 with filledcurves ls 23 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 38 using 1:3:4 with filledcurves ls 25 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 39 using 1:3:4 with filledcurves ls 26 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 40 using 1:3:4 with filledcurves ls 27 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 41 using 1:3:4 with filledcurves ls 30 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 42 using 1:3:4 with filledcurves ls 31 fs transparent solid 0.16 noborder notitle, 0 with lines ls 100 notitle, 'curves.dat' index 34 using 1:2 with linespoints ls 13 pointinterval 1 notitle, 'curves.dat' index 35 using 1:2 with linespoints ls 15 pointinterval 1 notitle, 'curves.dat' index 36 using 1:2 with linespoints ls 20 pointinterval 1 notitle, 'curves.dat' index 37 using 1:2 with linespoints ls 23 pointinterval 1 notitle, 'curves.dat' index 38 using 1:2 with linespoints ls 25 pointinterval 1 notitle, 'curves.dat' index 39 using 1:2 with linespoints ls 26 pointinterval 1 notitle, 'curves.dat' index 40 using 1:2 with linespoints ls 27 pointinterval 1 notitle, 'curves.dat' index 41 using 1:2 with linespoints ls 30 pointinterval 1 notitle, 'curves.dat' index 42 using 1:2 with linespoints ls 31 pointinterval 1 notitle
set lmargin at screen 0.07291666666666667
set rmargin at screen 0.3416666666666667
set bmargin at screen 0.4219219219219219
set tmargin at screen 0.545045045045045
set title 'autoencode_easy' offset 0,-0.6
set xlabel 'thousand environment steps' offset 0,0.4
set ylabel 'success, %' offset 1.2,0
set xrange [14:140]
set yrange [-0.03:1.03]
set ytics nomirror ('0' 0, '25' 0.25, '50' 0.5, '75' 0.75, '100' 1)
set grid ytics lc rgb '#E4E4E4' lt 1 lw 0.7
unset logscale x
set xtics nomirror 50
plot 'curves.dat' index 43 using 1:3:4 with filledcurves ls 13 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 44 using 1:3:4 with filledcurves ls 14 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 45 using 1:3:4 with filledcurves ls 15 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 46 using 1:3:4 with filledcurves ls 20 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 47 using 1:3:4 with filledcurves ls 23 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 48 using 1:3:4 with filledcurves ls 26 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 49 using 1:3:4 with filledcurves ls 27 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 50 using 1:3:4 with filledcurves ls 30 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 51 using 1:3:4 with filledcurves ls 31 fs transparent solid 0.16 noborder notitle, 0 with lines ls 100 notitle, 'curves.dat' index 43 using 1:2 with linespoints ls 13 pointinterval 1 notitle, 'curves.dat' index 44 using 1:2 with linespoints ls 14 pointinterval 1 notitle, 'curves.dat' index 45 using 1:2 with linespoints ls 15 pointinterval 1 notitle, 'curves.dat' index 46 using 1:2 with linespoints ls 20 pointinterval 1 notitle, 'curves.dat' index 47 using 1:2 with linespoints ls 23 pointinterval 1 notitle, 'curves.dat' index 48 using 1:2 with linespoints ls 26 pointinterval 1 notitle, 'curves.dat' index 49 using 1:2 with linespoints ls 27 pointinterval 1 notitle, 'curves.dat' index 50 using 1:2 with linespoints ls 30 pointinterval 1 notitle, 'curves.dat' index 51 using 1:2 with linespoints ls 31 pointinterval 1 notitle
set lmargin at screen 0.39375
set rmargin at screen 0.6625
set bmargin at screen 0.4219219219219219
set tmargin at screen 0.545045045045045
set title 'concentration_easy' offset 0,-0.6
set xlabel 'thousand environment steps' offset 0,0.4
unset ylabel
set xrange [12:120]
set yrange [-0.03:1.03]
set ytics nomirror ('0' 0, '25' 0.25, '50' 0.5, '75' 0.75, '100' 1)
set grid ytics lc rgb '#E4E4E4' lt 1 lw 0.7
unset logscale x
set xtics nomirror 50
plot 'curves.dat' index 52 using 1:3:4 with filledcurves ls 13 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 53 using 1:3:4 with filledcurves ls 14 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 54 using 1:3:4 with filledcurves ls 15 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 55 using 1:3:4 with filledcurves ls 20 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 56 using 1:3:4 with filledcurves ls 23 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 57 using 1:3:4 with filledcurves ls 26 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 58 using 1:3:4 with filledcurves ls 27 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 59 using 1:3:4 with filledcurves ls 30 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 60 using 1:3:4 with filledcurves ls 31 fs transparent solid 0.16 noborder notitle, 0 with lines ls 100 notitle, 'curves.dat' index 52 using 1:2 with linespoints ls 13 pointinterval 1 notitle, 'curves.dat' index 53 using 1:2 with linespoints ls 14 pointinterval 1 notitle, 'curves.dat' index 54 using 1:2 with linespoints ls 15 pointinterval 1 notitle, 'curves.dat' index 55 using 1:2 with linespoints ls 20 pointinterval 1 notitle, 'curves.dat' index 56 using 1:2 with linespoints ls 23 pointinterval 1 notitle, 'curves.dat' index 57 using 1:2 with linespoints ls 26 pointinterval 1 notitle, 'curves.dat' index 58 using 1:2 with linespoints ls 27 pointinterval 1 notitle, 'curves.dat' index 59 using 1:2 with linespoints ls 30 pointinterval 1 notitle, 'curves.dat' index 60 using 1:2 with linespoints ls 31 pointinterval 1 notitle
set lmargin at screen 0.7145833333333333
set rmargin at screen 0.9833333333333333
set bmargin at screen 0.4219219219219219
set tmargin at screen 0.545045045045045
set title 'memory_len_30' offset 0,-0.6
set xlabel 'thousand environment steps' offset 0,0.4
unset ylabel
set xrange [10:100]
set yrange [-0.03:1.03]
set ytics nomirror ('0' 0, '25' 0.25, '50' 0.5, '75' 0.75, '100' 1)
set grid ytics lc rgb '#E4E4E4' lt 1 lw 0.7
unset logscale x
set xtics nomirror 20
plot 'curves.dat' index 61 using 1:3:4 with filledcurves ls 13 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 62 using 1:3:4 with filledcurves ls 14 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 63 using 1:3:4 with filledcurves ls 15 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 64 using 1:3:4 with filledcurves ls 25 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 65 using 1:3:4 with filledcurves ls 26 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 66 using 1:3:4 with filledcurves ls 27 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 67 using 1:3:4 with filledcurves ls 31 fs transparent solid 0.16 noborder notitle, 0.5 with lines ls 100 notitle, 0.502 with lines ls 101 notitle, 'curves.dat' index 61 using 1:2 with linespoints ls 13 pointinterval 1 notitle, 'curves.dat' index 62 using 1:2 with linespoints ls 14 pointinterval 1 notitle, 'curves.dat' index 63 using 1:2 with linespoints ls 15 pointinterval 1 notitle, 'curves.dat' index 64 using 1:2 with linespoints ls 25 pointinterval 1 notitle, 'curves.dat' index 65 using 1:2 with linespoints ls 26 pointinterval 1 notitle, 'curves.dat' index 66 using 1:2 with linespoints ls 27 pointinterval 1 notitle, 'curves.dat' index 67 using 1:2 with linespoints ls 31 pointinterval 1 notitle
set lmargin at screen 0.07291666666666667
set rmargin at screen 0.3416666666666667
set bmargin at screen 0.23423423423423428
set tmargin at screen 0.3573573573573574
set title 'memory_len_100' offset 0,-0.6
set xlabel 'thousand environment steps' offset 0,0.4
set ylabel 'success, %' offset 1.2,0
set xrange [20:200]
set yrange [-0.03:1.03]
set ytics nomirror ('0' 0, '25' 0.25, '50' 0.5, '75' 0.75, '100' 1)
set grid ytics lc rgb '#E4E4E4' lt 1 lw 0.7
unset logscale x
set xtics nomirror 50
plot 'curves.dat' index 68 using 1:3:4 with filledcurves ls 13 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 69 using 1:3:4 with filledcurves ls 14 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 70 using 1:3:4 with filledcurves ls 15 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 71 using 1:3:4 with filledcurves ls 20 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 72 using 1:3:4 with filledcurves ls 23 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 73 using 1:3:4 with filledcurves ls 25 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 74 using 1:3:4 with filledcurves ls 26 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 75 using 1:3:4 with filledcurves ls 27 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 76 using 1:3:4 with filledcurves ls 30 fs transparent solid 0.16 noborder notitle, 0.5 with lines ls 100 notitle, 0.481 with lines ls 101 notitle, 'curves.dat' index 68 using 1:2 with linespoints ls 13 pointinterval 1 notitle, 'curves.dat' index 69 using 1:2 with linespoints ls 14 pointinterval 1 notitle, 'curves.dat' index 70 using 1:2 with linespoints ls 15 pointinterval 1 notitle, 'curves.dat' index 71 using 1:2 with linespoints ls 20 pointinterval 1 notitle, 'curves.dat' index 72 using 1:2 with linespoints ls 23 pointinterval 1 notitle, 'curves.dat' index 73 using 1:2 with linespoints ls 25 pointinterval 1 notitle, 'curves.dat' index 74 using 1:2 with linespoints ls 26 pointinterval 1 notitle, 'curves.dat' index 75 using 1:2 with linespoints ls 27 pointinterval 1 notitle, 'curves.dat' index 76 using 1:2 with linespoints ls 30 pointinterval 1 notitle
set lmargin at screen 0.39375
set rmargin at screen 0.6625
set bmargin at screen 0.23423423423423428
set tmargin at screen 0.3573573573573574
set title 'minigrid_memory_s9' offset 0,-0.6
set xlabel 'thousand environment steps' offset 0,0.4
unset ylabel
set xrange [40:200]
set yrange [-0.03:1.03]
set ytics nomirror ('0' 0, '25' 0.25, '50' 0.5, '75' 0.75, '100' 1)
set grid ytics lc rgb '#E4E4E4' lt 1 lw 0.7
unset logscale x
set xtics nomirror 50
plot 'curves.dat' index 77 using 1:3:4 with filledcurves ls 13 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 78 using 1:3:4 with filledcurves ls 14 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 79 using 1:3:4 with filledcurves ls 15 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 80 using 1:3:4 with filledcurves ls 20 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 81 using 1:3:4 with filledcurves ls 23 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 82 using 1:3:4 with filledcurves ls 25 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 83 using 1:3:4 with filledcurves ls 26 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 84 using 1:3:4 with filledcurves ls 27 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 85 using 1:3:4 with filledcurves ls 30 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 86 using 1:3:4 with filledcurves ls 31 fs transparent solid 0.16 noborder notitle, 0.5 with lines ls 100 notitle, 0.23 with lines ls 101 notitle, 'curves.dat' index 77 using 1:2 with linespoints ls 13 pointinterval 1 notitle, 'curves.dat' index 78 using 1:2 with linespoints ls 14 pointinterval 1 notitle, 'curves.dat' index 79 using 1:2 with linespoints ls 15 pointinterval 1 notitle, 'curves.dat' index 80 using 1:2 with linespoints ls 20 pointinterval 1 notitle, 'curves.dat' index 81 using 1:2 with linespoints ls 23 pointinterval 1 notitle, 'curves.dat' index 82 using 1:2 with linespoints ls 25 pointinterval 1 notitle, 'curves.dat' index 83 using 1:2 with linespoints ls 26 pointinterval 1 notitle, 'curves.dat' index 84 using 1:2 with linespoints ls 27 pointinterval 1 notitle, 'curves.dat' index 85 using 1:2 with linespoints ls 30 pointinterval 1 notitle, 'curves.dat' index 86 using 1:2 with linespoints ls 31 pointinterval 1 notitle
set lmargin at screen 0.7145833333333333
set rmargin at screen 0.9833333333333333
set bmargin at screen 0.23423423423423428
set tmargin at screen 0.3573573573573574
set title 'minigrid_memory_s11' offset 0,-0.6
set xlabel 'thousand environment steps' offset 0,0.4
unset ylabel
set xrange [40:200]
set yrange [-0.03:1.03]
set ytics nomirror ('0' 0, '25' 0.25, '50' 0.5, '75' 0.75, '100' 1)
set grid ytics lc rgb '#E4E4E4' lt 1 lw 0.7
unset logscale x
set xtics nomirror 50
plot 'curves.dat' index 87 using 1:3:4 with filledcurves ls 13 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 88 using 1:3:4 with filledcurves ls 14 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 89 using 1:3:4 with filledcurves ls 15 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 90 using 1:3:4 with filledcurves ls 20 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 91 using 1:3:4 with filledcurves ls 23 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 92 using 1:3:4 with filledcurves ls 25 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 93 using 1:3:4 with filledcurves ls 26 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 94 using 1:3:4 with filledcurves ls 27 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 95 using 1:3:4 with filledcurves ls 30 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 96 using 1:3:4 with filledcurves ls 31 fs transparent solid 0.16 noborder notitle, 0.5 with lines ls 100 notitle, 0.283 with lines ls 101 notitle, 'curves.dat' index 87 using 1:2 with linespoints ls 13 pointinterval 1 notitle, 'curves.dat' index 88 using 1:2 with linespoints ls 14 pointinterval 1 notitle, 'curves.dat' index 89 using 1:2 with linespoints ls 15 pointinterval 1 notitle, 'curves.dat' index 90 using 1:2 with linespoints ls 20 pointinterval 1 notitle, 'curves.dat' index 91 using 1:2 with linespoints ls 23 pointinterval 1 notitle, 'curves.dat' index 92 using 1:2 with linespoints ls 25 pointinterval 1 notitle, 'curves.dat' index 93 using 1:2 with linespoints ls 26 pointinterval 1 notitle, 'curves.dat' index 94 using 1:2 with linespoints ls 27 pointinterval 1 notitle, 'curves.dat' index 95 using 1:2 with linespoints ls 30 pointinterval 1 notitle, 'curves.dat' index 96 using 1:2 with linespoints ls 31 pointinterval 1 notitle
set lmargin at screen 0.07291666666666667
set rmargin at screen 0.3416666666666667
set bmargin at screen 0.04654654654654655
set tmargin at screen 0.16966966966966968
set title 'minigrid_memory_s13' offset 0,-0.6
set xlabel 'thousand environment steps' offset 0,0.4
set ylabel 'success, %' offset 1.2,0
set xrange [80:400]
set yrange [-0.03:1.03]
set ytics nomirror ('0' 0, '25' 0.25, '50' 0.5, '75' 0.75, '100' 1)
set grid ytics lc rgb '#E4E4E4' lt 1 lw 0.7
unset logscale x
set xtics nomirror 100
plot 'curves.dat' index 97 using 1:3:4 with filledcurves ls 13 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 98 using 1:3:4 with filledcurves ls 14 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 99 using 1:3:4 with filledcurves ls 15 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 100 using 1:3:4 with filledcurves ls 20 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 101 using 1:3:4 with filledcurves ls 23 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 102 using 1:3:4 with filledcurves ls 25 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 103 using 1:3:4 with filledcurves ls 26 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 104 using 1:3:4 with filledcurves ls 27 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 105 using 1:3:4 with filledcurves ls 30 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 106 using 1:3:4 with filledcurves ls 31 fs transparent solid 0.16 noborder notitle, 0.5 with lines ls 100 notitle, 0.295 with lines ls 101 notitle, 'curves.dat' index 97 using 1:2 with linespoints ls 13 pointinterval 1 notitle, 'curves.dat' index 98 using 1:2 with linespoints ls 14 pointinterval 1 notitle, 'curves.dat' index 99 using 1:2 with linespoints ls 15 pointinterval 1 notitle, 'curves.dat' index 100 using 1:2 with linespoints ls 20 pointinterval 1 notitle, 'curves.dat' index 101 using 1:2 with linespoints ls 23 pointinterval 1 notitle, 'curves.dat' index 102 using 1:2 with linespoints ls 25 pointinterval 1 notitle, 'curves.dat' index 103 using 1:2 with linespoints ls 26 pointinterval 1 notitle, 'curves.dat' index 104 using 1:2 with linespoints ls 27 pointinterval 1 notitle, 'curves.dat' index 105 using 1:2 with linespoints ls 30 pointinterval 1 notitle, 'curves.dat' index 106 using 1:2 with linespoints ls 31 pointinterval 1 notitle
set lmargin at screen 0.39375
set rmargin at screen 0.6625
set bmargin at screen 0.04654654654654655
set tmargin at screen 0.16966966966966968
set title 'minigrid_memory_s17_random' offset 0,-0.6
set xlabel 'thousand environment steps' offset 0,0.4
unset ylabel
set xrange [80:480]
set yrange [-0.03:1.03]
set ytics nomirror ('0' 0, '25' 0.25, '50' 0.5, '75' 0.75, '100' 1)
set grid ytics lc rgb '#E4E4E4' lt 1 lw 0.7
unset logscale x
set xtics nomirror 100
plot 'curves.dat' index 107 using 1:3:4 with filledcurves ls 13 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 108 using 1:3:4 with filledcurves ls 14 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 109 using 1:3:4 with filledcurves ls 15 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 110 using 1:3:4 with filledcurves ls 20 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 111 using 1:3:4 with filledcurves ls 23 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 112 using 1:3:4 with filledcurves ls 25 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 113 using 1:3:4 with filledcurves ls 26 fs transparent solid 0.16 noborder notitle, 'curves.dat' index 114 using 1:3:4 with filledcurves ls 31 fs transparent solid 0.16 noborder notitle, 0.5 with lines ls 100 notitle, 0.344 with lines ls 101 notitle, 'curves.dat' index 107 using 1:2 with linespoints ls 13 pointinterval 1 notitle, 'curves.dat' index 108 using 1:2 with linespoints ls 14 pointinterval 1 notitle, 'curves.dat' index 109 using 1:2 with linespoints ls 15 pointinterval 1 notitle, 'curves.dat' index 110 using 1:2 with linespoints ls 20 pointinterval 1 notitle, 'curves.dat' index 111 using 1:2 with linespoints ls 23 pointinterval 1 notitle, 'curves.dat' index 112 using 1:2 with linespoints ls 25 pointinterval 1 notitle, 'curves.dat' index 113 using 1:2 with linespoints ls 26 pointinterval 1 notitle, 'curves.dat' index 114 using 1:2 with linespoints ls 31 pointinterval 1 notitle
unset multiplot
set output
